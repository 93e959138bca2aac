"""Operations on clusters for commands and consoles: functions on data, without a terminal."""
