from functions.catalog import target

rollout_wake = target("rollout_wake")
