"""Every file and folder is still there and has the mode that it should have."""
import os, stat, sys
WANTED = {
    "README": 0o644,
    "run.sh": 0o755,
    "secrets": 0o755,
    "secrets/api.key": 0o600,
    "tools": 0o755,
    "tools/clean.sh": 0o755,
    "tools/notes.txt": 0o644,
}
FOLDERS = {"secrets", "tools"}
wrong = []
for name, wanted in WANTED.items():
    path = os.path.join("/app/project", name)
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        wrong.append(f"{path}: {error.strerror}")
        continue
    if not (stat.S_ISDIR(mode) if name in FOLDERS else stat.S_ISREG(mode)):
        wrong.append(f"{path} is another kind of file than it was")
    elif stat.S_IMODE(mode) != wanted:
        wrong.append(f"{path} is {stat.S_IMODE(mode):o}, not {wanted:o}")
print("\n".join(wrong) or "all modes are right")
if wrong:
    sys.exit(f"FAILED: {len(wrong)} of {len(WANTED)} are wrong")
