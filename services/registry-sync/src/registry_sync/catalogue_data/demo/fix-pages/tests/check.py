"""Pages of every size hold everything once, in order."""
import sys
sys.path.insert(0, "/app")
from pages import page, page_count
for size in range(30):
    things = list(range(size))
    for per_page in range(1, 12):
        count = page_count(size, per_page)
        cut = [page(things, number, per_page) for number in range(1, count + 1)]
        if sum(cut, []) != things or any(not one for one in cut):
            sys.exit(f"{size} things with {per_page} on a page: {cut}")
print("all pages are right")
