"""The cache against a slow and simple one, over many random uses."""
import random, sys
sys.path.insert(0, "/app")
from cache import Cache
for seed in range(300):
    rng = random.Random(seed)
    size = rng.randint(0, 4)
    cache, order = Cache(size), []
    for step in range(60):
        key = rng.choice("abcdef")
        if rng.random() < 0.5:
            wanted = next((v for k, v in order if k == key), None)
            if wanted is not None:
                order = [pair for pair in order if pair[0] != key] + [(key, wanted)]
            found = cache.get(key)
            if found != wanted:
                sys.exit(f"seed {seed}, step {step}: get({key!r}) gave {found}, wanted {wanted}")
        else:
            value = rng.randint(0, 3)
            order = [pair for pair in order if pair[0] != key] + [(key, value)]
            order = order[-size:] if size else []
            cache.put(key, value)
print("300 random histories agree")
