#!/bin/sh
# tests/cli/s_scanned.sh - scanned pages and pictures with the real tesseract: how much is recognised, stopping, what is kept.
#
# WEIR is the program (default ./weir).  Needs python3, pdftoppm and tesseract with English; no model.
# Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}

. tests/lib/count.sh
for program in python3 pdftoppm tesseract; do
	command -v $program >/dev/null || { skip "scanned pages" "$program is not installed"; finish; }
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME="$dir/cache"

tesseract --list-langs 2>/dev/null | grep -qx eng || { skip "scanned pages" "tesseract has no English"; finish; }
tests/measure/scans.py --pages 3 --keep "$dir/scan.pdf" LICENSE 2>"$dir/err" || { bad "a scanned PDF is made" "$(tail -n 1 "$dir/err")"; finish; }

f1=$(XDG_CACHE_HOME=$dir/other tests/measure/scans.py --weir "$weir" --pages 3 LICENSE 2>"$dir/err")
case $f1 in
*"least 0.9"[5-9]* | *"least 1.0"*) ok "three pages at 300 dpi: $f1" ;;
*) bad "three pages at 300 dpi" "$f1 $(tail -n 1 "$dir/err")" ;;
esac

# ---- stopped: no program stays, and pages that were recognised are kept ----

"$weir" inspect document "$dir/scan.pdf" >"$dir/out" 2>"$dir/err" &
job=$!
i=0
while [ $i -lt 600 ] && ! ls "$dir"/cache/weir/recognised/* >/dev/null 2>&1; do sleep 0.1; i=$((i + 1)); done
children=$(pgrep -P $job)
kill -TERM $job
wait $job 2>/dev/null
rc=$?
[ $rc -ge 128 ] && ok "a signal ends it" || bad "a signal ends it" "status $rc"
kept=$(cat "$dir"/cache/weir/recognised/* | wc -c)
# Prints the children that still run. Z: waits for init alone
running() {
	for child in $children; do
		grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$child/status" 2>/dev/null && printf ' %s' "$child"
	done
}
i=0
while [ $i -lt 100 ] && [ -n "$(running)" ]; do sleep 0.1; i=$((i + 1)); done
left=$(running)
[ -n "$children" ] && [ -z "$left" ] && ok "no program is left" || bad "no program is left" "of $children:$left"
"$weir" inspect document "$dir/scan.pdf" --json >"$dir/out" 2>"$dir/err"
grep -q '"text":"1","recognised":true' "$dir/out" && ok "the rest is recognised" || bad "the rest is recognised" "$(cat "$dir/err")"
[ "$(cat "$dir"/cache/weir/recognised/* | wc -c)" -gt "$kept" ] && ok "its pages are kept" || bad "its pages are kept" "$kept"
mkdir "$dir/bin"
for program in pdftotext pdftohtml pdftoppm; do ln -s "$(command -v $program)" "$dir/bin/$program"; done
start=$(date +%s%N)
"$weir" inspect document "$dir/scan.pdf" >"$dir/again" 2>&1
took=$((($(date +%s%N) - start) / 1000000))
[ $took -lt 2000 ] && ok "a second time it is not recognised again ($took ms)" || bad "not recognised again" "$took ms"

# ---- a page whose font is not in the file: the jailed program finds one of the system ----

python3 - "$dir/font.pdf" <<'EOT'
import sys
def stream(s): return b"<</Length %d>>\nstream\n%s\nendstream" % (len(s), s)
# ToUnicode maps all characters to private ones, so that the page is recognised.
objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
    stream(b"BT /F 24 Tf 40 100 Td (The harbour opens at noon) Tj ET"),
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>",
    stream(b"begincmap 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <20> <7e> <e020> endbfrange endcmap")]
open(sys.argv[1], "wb").write(b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % (i + 1, o) for i, o in enumerate(objects)) + b"trailer <</Root 1 0 R>>\n")
EOT
if ! pdftoppm -r 300 "$dir/font.pdf" 2>/dev/null | tesseract - - 2>/dev/null | grep -q harbour; then
	skip "a page without its font" "there are no fonts"
elif ! "$weir" doctor 2>/dev/null | grep -q 'a root of its own'; then
	skip "a page without its font" "the jail has no root of its own"
else
	"$weir" inspect document -q "$dir/font.pdf" >"$dir/out" 2>"$dir/err"
	grep -q 'The harbour opens at noon' "$dir/out" && ok "a page without its font" || bad "a page without its font" "$(cat "$dir/out" "$dir/err")"
fi

# ---- without tesseract, and hostile files ----

(PATH=$dir/bin "$weir" inspect document "$dir/scan.pdf") >"$dir/out" 2>"$dir/err"
rc=$?
[ $rc = 4 ] && grep -q 'install tesseract-ocr' "$dir/err" && ok "without tesseract it says what to install" ||
	bad "without tesseract it says what to install" "status $rc: $(cat "$dir/err")"
"$weir" inspect document --ocr-lang xxx "$dir/scan.pdf" >"$dir/out" 2>"$dir/err"
grep -q 'install tesseract-ocr-xxx' "$dir/err" && ok "a language that is not installed" || bad "a language that is not installed" "$(cat "$dir/err")"

# refuses NAME FILE: status 4 and one line, in less than a minute.
refuses() {
	timeout 110 "$weir" inspect document "$2" >"$dir/out" 2>"$dir/err"
	rc=$?
	[ $rc = 4 ] && [ "$(wc -l <"$dir/err")" = 1 ] && ok "$1" || bad "$1" "status $rc: $(cat "$dir/err")"
}
python3 - "$dir" <<'EOT'
import struct, sys, zlib
d = sys.argv[1]
def chunk(kind, body): return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
def png(name, w, h, body): open(d + "/" + name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0)) + chunk(b"IDAT", body) + chunk(b"IEND", b""))
png("huge.png", 60000, 60000, zlib.compress(b"\0" * 60001 * 100, 9))
png("cut.png", 600, 600, zlib.compress(b"\0" * 601 * 600)[:40])
png("empty.png", 200, 200, zlib.compress(b"\0" + b"\xff" * 200 * 201))
open(d + "/circle.tif", "wb").write(b"II*\0\10\0\0\0\0\0\10\0\0\0")
open(d + "/cut.jpg", "wb").write(b"\xff\xd8\xff\xe0\0\20JFIF")
open(d + "/large.pdf", "wb").write(b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n"
    b"3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 14400 14400] >>\nendobj\ntrailer << /Root 1 0 R >>\n")
EOT
for file in huge.png cut.png empty.png circle.tif cut.jpg large.pdf; do
	refuses "hostile: $file" "$dir/$file"
done
finish
