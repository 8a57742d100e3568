"""embed.py FILE OUT: the bytes of FILE as the inside of a C array."""
import sys


def main():
    source, target = sys.argv[1:3]
    with open(source, "rb") as file:
        data = file.read()
    with open(target, "w", encoding="ascii") as out:
        for at in range(0, len(data), 24):
            out.write(" ".join(f"{byte}," for byte in data[at:at + 24]) + "\n")


main()
