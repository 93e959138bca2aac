from functions.catalog import target

dead_letters = target("dead_letters")
