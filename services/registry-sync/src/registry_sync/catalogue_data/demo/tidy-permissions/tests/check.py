"""Every file and folder has the mode that it should have."""
import os, sys
wrong, seen = [], 0
for folder, folders, files in os.walk("/app/project"):
    for name, mode in [(n, 0o755) for n in folders] + [
        (n, 0o755 if n.endswith(".sh") else 0o600 if n.endswith(".key") else 0o644) for n in files
    ]:
        seen += 1
        path = os.path.join(folder, name)
        found = os.stat(path).st_mode & 0o777
        if found != mode:
            wrong.append(f"{path} is {found:o}, not {mode:o}")
print("\n".join(wrong) or "all modes are right")
sys.exit(bool(wrong) or seen != 7)
