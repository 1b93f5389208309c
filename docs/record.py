#!/usr/bin/env python3
"""Records a command in a terminal as an SVG image.

    record.py scroll -o FILE [OPTIONS] -- COMMAND...    all output, scrolling at the recorded speed
    record.py screen -o FILE [OPTIONS] -- COMMAND...    the screen after --seconds; then the command gets Ctrl-C

Needs nothing but Python 3 on Unix. docs/README.md has the commands for the images of the book.
"""

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from xml.sax.saxutils import escape

BACKGROUND, FOREGROUND = "#0d1117", "#c9d1d9"
PALETTE = ["#484f58", "#ff7b72", "#3fb950", "#e3b341", "#58a6ff", "#bc8cff", "#56d4dd", "#b1bac4",
           "#8b949e", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff"]
CELL, LINE, MARGIN, TITLE = 8.4, 18.5, 16, 32
PLAIN = (None, None, False, False, False)  # foreground, background, bold, dim, reverse
SEQUENCE = re.compile(r"\x1b(?:\[([?>=]?)([0-9;:]*)([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])")


def extended_color(codes):
    """The color of `5;N` or `2;R;G;B`, which are removed from the codes."""
    if codes[:1] == [5] and len(codes) > 1:
        number = codes[1]
        del codes[:2]
        if number < 16:
            return PALETTE[number]
        if number < 232:
            parts = [(number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6]
            return "#%02x%02x%02x" % tuple(55 + 40 * part if part else 0 for part in parts)
        return "#%02x%02x%02x" % ((8 + 10 * (number - 232),) * 3)
    if codes[:1] == [2] and len(codes) > 3:
        color = "#%02x%02x%02x" % tuple(codes[1:4])
        del codes[:4]
        return color
    return None


class Screen:
    """The cells of a terminal, and the escape sequences that change them."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.row = self.column = self.last = 0
        self.style = PLAIN
        self.cells = {}

    def feed(self, text):
        """Interprets output, and returns the rest that is not complete yet."""
        place = 0
        while place < len(text):
            letter = text[place]
            if letter == "\x1b":
                match = SEQUENCE.match(text, place)
                if not match:
                    if len(text) - place < 64:
                        return text[place:]
                    place += 1
                    continue
                if match[3] and not match[1]:
                    self.control(match[3], [int(part or 0) for part in re.split("[;:]", match[2])])
                elif match[3] in ("h", "l") and match[2] in ("1049", "47"):
                    self.cells.clear()
                place = match.end()
                continue
            if letter == "\n":
                self.row += 1
            elif letter == "\r":
                self.column = 0
            elif letter == "\b":
                self.column = max(0, self.column - 1)
            elif letter == "\t":
                self.column = (self.column // 8 + 1) * 8
            elif letter >= " ":
                if self.column >= self.columns:
                    self.row, self.column = self.row + 1, 0
                self.cells[self.row, self.column] = (letter, self.style)
                self.column += 1
                self.last = max(self.last, self.row)
            self.row = min(self.row, self.rows - 1)
            place += 1
        return ""

    def control(self, name, codes):
        count = max(1, codes[0])
        if name in "Hf":
            self.row, self.column = count - 1, max(1, codes[1] if len(codes) > 1 else 1) - 1
        elif name == "A":
            self.row = max(0, self.row - count)
        elif name == "B":
            self.row += count
        elif name == "C":
            self.column += count
        elif name == "D":
            self.column = max(0, self.column - count)
        elif name == "G":
            self.column = count - 1
        elif name == "d":
            self.row = count - 1
        elif name == "J":
            self.erase(lambda row, column: codes[0] == 2 or (row, column) >= (self.row, self.column))
        elif name == "K":
            self.erase(lambda row, column: row == self.row and (codes[0] == 2 or (column >= self.column) == (codes[0] == 0)))
        elif name == "X":
            self.erase(lambda row, column: row == self.row and self.column <= column < self.column + count)
        elif name == "m":
            self.paint(codes)

    def erase(self, matches):
        for place in [place for place in self.cells if matches(*place)]:
            del self.cells[place]

    def paint(self, codes):
        codes = list(codes)
        foreground, background, bold, dim, reverse = self.style
        while codes:
            code = codes.pop(0)
            if code == 0:
                foreground, background, bold, dim, reverse = PLAIN
            elif code == 1:
                bold = True
            elif code == 2:
                dim = True
            elif code == 22:
                bold = dim = False
            elif code in (7, 27):
                reverse = code == 7
            elif 30 <= code <= 37 or 90 <= code <= 97:
                foreground = PALETTE[code - 30 if code < 90 else code - 82]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                background = PALETTE[code - 40 if code < 100 else code - 92]
            elif code == 38:
                foreground = extended_color(codes)
            elif code == 48:
                background = extended_color(codes)
            elif code == 39:
                foreground = None
            elif code == 49:
                background = None
        self.style = (foreground, background, bold, dim, reverse)

    def runs(self):
        """Pieces of a row with one style, as row, column, text and style."""
        runs = []
        for (row, column), (letter, style) in sorted(self.cells.items()):
            if runs and runs[-1][0] == row and runs[-1][1] + len(runs[-1][2]) == column and runs[-1][3] == style:
                runs[-1][2] += letter
            else:
                runs.append([row, column, letter, style])
        return runs


def record(command, screen, seconds):
    """Runs the command, and returns its exit code and when which row was reached."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(screen.columns), LINES=str(min(screen.rows, 50)))
        os.environ.pop("NO_COLOR", None)
        os.execvp(command[0], command)
    size = struct.pack("HHHH", min(screen.rows, 50), screen.columns, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    start, rest, reached, data = time.monotonic(), "", [], b""
    while seconds is None or time.monotonic() - start < seconds:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            data += os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        text = data.decode("utf-8", "ignore")
        keep = len(data) - len(text.encode())
        data = data[len(data) - keep:] if 0 < keep < 4 else b""
        rest = screen.feed(rest + text)
        if not reached or reached[-1][1] != screen.last:
            reached.append((time.monotonic() - start, screen.last))
    if seconds is not None:
        os.kill(process, signal.SIGINT)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), reached


def draw(screen, title, height, reached):
    """The image. `reached` says when to scroll; without it, nothing moves."""
    width = screen.columns * CELL + 2 * MARGIN
    view = height * LINE
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {view + TITLE + MARGIN:.0f}" '
           f'xml:space="preserve" role="img" aria-label="{escape(title)} in a terminal">',
           "<style>",
           'text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;'
           f"fill:{FOREGROUND};white-space:pre}}"]
    if reached:
        end = reached[-1][0] + 4
        offset = lambda row: min(view - LINE, view - LINE * (row + 2))
        steps = [f"{100 * when / end:.2f}%{{transform:translateY({offset(row):.1f}px)}}" for when, row in reached]
        steps = [f"0%{{transform:translateY({offset(0):.1f}px)}}", *steps]
        out += [f"#s{{animation:s {end:.1f}s step-end infinite}}", "@keyframes s{" + "".join(steps) + "}",
                f"@media (prefers-reduced-motion:reduce){{#s{{animation:none;transform:translateY({offset(reached[-1][1]):.1f}px)}}}}"]
    out += ["</style>", f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>']
    out += [f'<circle cx="{18 * place}" cy="17" r="5" fill="{color}"/>'
            for place, color in enumerate(["#ff5f57", "#febc2e", "#28c840"], 1)]
    out += [f'<text x="{width / 2:.0f}" y="22" text-anchor="middle">{escape(title)}</text>',
            f'<clipPath id="v"><rect y="{TITLE}" width="100%" height="{view:.1f}"/></clipPath>',
            f'<g clip-path="url(#v)"><g transform="translate({MARGIN},{TITLE})"><g id="s">']
    for row, column, text, (foreground, background, bold, dim, reverse) in screen.runs():
        if reverse:
            foreground, background = background or BACKGROUND, foreground or FOREGROUND
        x, y = column * CELL, row * LINE
        if background:
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{len(text) * CELL:.1f}" height="{LINE}" fill="{background}"/>')
        if not text.strip():
            continue
        blank = len(text) - len(text.lstrip())
        text = text.strip()
        style = f' fill="{foreground}"' if foreground else ""
        style += ' font-weight="700"' if bold else ""
        style += ' opacity=".7"' if dim else ""
        # A presentation attribute loses against the style sheet, so the color is a style.
        style = re.sub(r' fill="([^"]*)"', r' style="fill:\1"', style)
        out.append(f'<text x="{x + blank * CELL:.1f}" y="{y + 13.5:.1f}" textLength="{len(text) * CELL:.1f}"{style}>{escape(text)}</text>')
    out.append("</g></g></g>\n</svg>\n")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["scroll", "screen"])
    parser.add_argument("-o", "--output", required=True, help="SVG file to write")
    parser.add_argument("--columns", type=int, default=88, help="width of the terminal (default 88)")
    parser.add_argument("--rows", type=int, default=27, help="visible rows (default 27)")
    parser.add_argument("--seconds", type=float, default=30, help="for screen: when to take the picture (default 30)")
    parser.add_argument("--title", help="title of the window (default: the command)")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    scroll = arguments.mode == "scroll"
    screen = Screen(arguments.columns, 10_000 if scroll else arguments.rows)
    code, reached = record(arguments.command, screen, None if scroll else arguments.seconds)
    if scroll and code != 0:
        sys.exit(f"{arguments.command[0]} exited with {code}: nothing written")
    title = arguments.title or " ".join([os.path.basename(arguments.command[0]), *arguments.command[1:]])
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(draw(screen, title, arguments.rows, reached if scroll else None))


if __name__ == "__main__":
    main()
