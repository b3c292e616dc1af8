#!/bin/sh
# tests/cli/s_docs.sh - the help, the two manuals, README.md and HACKING.md say the same: options, commands, policies, files, tests; no link
# is broken.
#
# WEIR is the program (default ./weir).  Needs no model.  Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2013 # words, not lines
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}

. tests/lib/count.sh
[ -x "$weir" ] || { bad docs "no program at '$weir'"; finish; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# each NAME LIST FILE: check that every line of LIST is in FILE.
each() {
	[ -s "$2" ] || { bad "$1" "nothing to compare"; return; }
	missing=$(while read -r word; do
		grep -q -F -e "$word" "$3" || printf "'%s' " "$word"
	done <"$2")
	if [ -z "$missing" ]; then ok "$1"; else bad "$1" "missing: $missing"; fi
}

"$weir" --help >"$dir/overview"
"$weir" help commands >"$dir/list"
sed -n 's/^  weir /weir /p' "$dir/list" | sed -e 's/  .*//' -e 's/ [[A-Z].*//' -e 's/ [a-z|]*|.*//' | sort -u >"$dir/commands"
"$weir" help options >"$dir/help"
for command in $(sed 's/^weir //; s/ /+/' "$dir/commands"); do
	# shellcheck disable=SC2046 # one or two words
	"$weir" help $(echo "$command" | tr + ' ') >>"$dir/help"
done
# plain: the manual as plain words, without requests, fonts and escapes.
plain() { sed -e 's/^\.[A-Za-z]* *//' -e 's/\\f[A-Z]//g' -e 's/\\-/-/g' -e 's/"//g' -e 's/\\(dq/"/g' "$@"; }
plain man/weir.1 >"$dir/man"
grep -o -- '--[a-z][a-z-]*' README.md | sort -u >"$dir/readme_options"
sed -n 's/^ *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' "$dir/help" | sort -u >"$dir/options"
sed -n 's/^ *\(-.\), --.*/\1/p' "$dir/help" | sort -u >"$dir/shorts"
sed -n '/^\.SH OPTIONS/,/^\.SH CHAT/p' man/weir.1 | sed -n '/^\.B[IR]* /s/\\-/-/gp' | grep -o -- '--[a-z][a-z-]*' | sort -u >"$dir/man_options"

each "every option of --help is in the manual" "$dir/options" "$dir/man_options"
each "every option of the manual is in --help" "$dir/man_options" "$dir/options"
each "every option of the README is in --help" "$dir/readme_options" "$dir/options"
each "every short option is in the manual" "$dir/shorts" "$dir/man"
each "every command of --help is in the manual" "$dir/commands" "$dir/man"
grep -o '\[WEIR_[A-Z]*\]' "$dir/help" | tr -d '[]' | sort -u >"$dir/variables"
# defaults: prints lines like "temp 0.3" for each option with a default
defaults() {
	tr '\n' ' ' <"$1" | sed -e 's/ --/\n--/g' -e 's/Default:/default/g' |
		sed -n 's/^--\([a-z-]*\) .*default *\([-0-9.,]*[0-9]\).*/\1 \2/p' | sort -u
}
defaults "$dir/help" >"$dir/defaults"
defaults "$dir/man" >"$dir/man_defaults"
if [ "$(wc -l <"$dir/defaults")" -ge 12 ]; then each "every default value is in the manual" "$dir/defaults" "$dir/man_defaults"
else bad "every default value is in the manual" "the help was not understood: $(tr '\n' '|' <"$dir/defaults")"; fi
each "every environment variable is in the manual" "$dir/variables" "$dir/man"

# /help prints these tables of the source.
sed -n 's/^\t{"\(\/[a-z]*\)".*/\1/p' app/chat/*.c app/tui/screen_commands.c | sort -u >"$dir/slashes"
# Only headings count; to be named in the text of another command is not enough.
awk 'heading && /^\.B[IR]* \/[a-z]/ { print $2 } { heading = /^\.TP/ }' man/weir.1 | sort -u >"$dir/man_slashes"
each "every slash command is in the manual" "$dir/slashes" "$dir/man_slashes"
# Line mode says of a command that only the screen has where it is to be had.
sed -n 's/^\t{"\(\/[a-z]*\)".*/\1/p' app/chat/commands.c | sort -u >"$dir/chat_slashes"
sed -n 's/^\t{"\(\/[a-z]*\)".*/\1/p' app/tui/screen_commands.c | sort -u | comm -23 - "$dir/chat_slashes" >"$dir/screen_slashes"
grep 'of_screen\[\]' app/chat/commands.c >"$dir/of_screen"
each "line mode knows every command of the screen" "$dir/screen_slashes" "$dir/of_screen"
"$weir" help keys | sed -n '/^Commands/q; s/^ \([^ ].*[^ ]\)   *[^ ].*/\1/p' | sort -u >"$dir/keys"
sed -n '/^THE SCREEN/,/^CHAT/p' "$dir/man" >"$dir/man_keys"
if [ "$(wc -l <"$dir/keys")" -ge 40 ]; then each "every key of the screen is in the manual" "$dir/keys" "$dir/man_keys"
else bad "every key of the screen is in the manual" "weir help keys was not understood"; fi

"$weir" help options | sed -n 's/^exit codes: //p' | tr ',' '\n' | sed 's/^ *\([0-9]*\).*/\1/' >"$dir/codes"
sed -n '/^EXIT STATUS/,/^ENVIRONMENT/p' "$dir/man" >"$dir/man_codes"
each "every exit code is in the manual" "$dir/codes" "$dir/man_codes"

# Families of models and types of weights.
sed -n '/^\.SH MODELS/,/^\.SH [^M]/p' man/weir.1 | plain >"$dir/man_models"
"$weir" doctor -m "$dir/none.gguf" | sed -n 's/^families *//p' | tr ' ' '\n' >"$dir/families"
each "every model family is in the manual" "$dir/families" "$dir/man_models"
# without those of lists and copies
sed -n 's/^\t\[DT_[A-Z0-9_]*\] *= { "\([A-Z0-9_]*\)".*/\1/p' kernels/common/quant.c | grep -v '^[IU][0-9]*$' >"$dir/types"
each "every weight type is in the manual" "$dir/types" "$dir/man_models"

# Document formats, as users write them: "PDF", "plain text".
tr '\n' ' ' <sessions/import/type.c | sed 's/.*doc_type_name\[\] = {\([^}]*\)}.*/\1/' | grep -o '"[a-z0-9]*"' | tr -d '"' >"$dir/formats"
sed -n '/^\.SH DOCUMENTS/,/^\.SH [^D]/p' man/weir.1 | tr '[:upper:]' '[:lower:]' >"$dir/man_documents"
each "every document format is in the manual" "$dir/formats" "$dir/man_documents"

# Cache policies: "sift k=512" for each setting of --kv help, and for each section of the manual that names it.
"$weir" --kv help | awk '/^  [a-z]/ { policy = $1; print policy } /^      [a-z]*=/ { print policy, $1 }' | sort -u >"$dir/settings"
awk '/^\.SS / { policy = $2 } /^\.SH / { policy = "" } policy == "" { next } /^\.SS / { print policy; next }
	/^\.BR? / { gsub(/[",]/, " "); for (i = 2; i <= NF; i++) if ($i ~ /=/) print policy, $i }' man/weir-cache.7 | sort -u >"$dir/man_settings"
if [ "$(wc -l <"$dir/settings")" -ge 60 ]; then
	each "every policy and setting is in the manual of the cache" "$dir/settings" "$dir/man_settings"
	each "every policy and setting there is one of --kv help" "$dir/man_settings" "$dir/settings"
else
	bad "every policy and setting is in the manual of the cache" "the help was not understood: $(wc -l <"$dir/settings") lines"
fi

# Files, tests, targets and links named in the pages exist.
gone=
for name in $(grep -o '\b[ts]_[a-z_]*[a-z]\b' README.md HACKING.md | cut -d: -f2 | sort -u); do
	[ -n "$(find tests -name "$name.c" -o -name "$name.sh")" ] || gone="$gone $name"
done
for target in $(cat README.md HACKING.md | grep -o '\(^\|`\)make [a-z][a-z-]*' | cut -d' ' -f2 | sort -u); do
	grep -q "^$target:\|^\.PHONY:.* $target\b\|^        .* $target\b" Makefile || gone="$gone make-$target"
done
if [ -z "$gone" ]; then ok "tests and targets that are named exist"; else bad "tests and targets that are named exist" "no$gone"; fi
gone=
for file in $(sed -n 's/.*`\(\(app\|engine\|kernels\|sessions\|ui\|tests\|man\)\/[^` ]*\)`.*/\1/p' HACKING.md | sort -u); do
	case $file in *[A-Z]*) continue ;; esac
	[ -n "$(find . -path "./${file%/}" -print -quit)" ] || gone="$gone $file"
done
if [ -z "$gone" ]; then ok "files that HACKING.md names exist"; else bad "files that HACKING.md names exist" "no$gone"; fi
gone=
for page in $(git ls-files '*.md' ':!tests/fuzz' 2>/dev/null || echo README.md HACKING.md); do
	for link in $(sed -e 's/`[^`]*`//g' "$page" | grep -o '](<\{0,1\}[^) ]*)' | sed 's/^](<\{0,1\}//; s/[>)]*$//; s/#.*//' | grep -v '^[a-z]*:' | sort -u); do
		[ -e "$(dirname "$page")/$link" ] || gone="$gone $page:$link"
	done
done
if [ -z "$gone" ]; then ok "every link of a page leads to a file"; else bad "every link of a page leads to a file" "$gone"; fi
if [ "$(wc -l <README.md)" -le 130 ]; then ok "the README is short"; else bad "the README is short" "$(wc -l <README.md) lines"; fi

if [ "$(head -qn 1 man/* | grep -o '[0-9]*\.[0-9]*\.[0-9]*' | sort -u)" = "$("$weir" --version | cut -d' ' -f2)" ]; then ok "the manuals have the version"
else bad "the manuals have the version" "$(head -qn 1 man/*), $("$weir" --version)"; fi
# Each page is installed.
gone=$(for page in man/*; do grep -q "install .* $page " Makefile || echo "$page"; done)
if [ -z "$gone" ]; then ok "make install installs every manual"; else bad "make install installs every manual" "$gone"; fi

if command -v groff >/dev/null 2>&1; then
	complaint=$(for page in man/*; do groff -man -Tutf8 -ww -z "$page" 2>&1; done | head -n 3)
	if [ -z "$complaint" ]; then ok "the manuals render without a warning"; else bad "the manuals render without a warning" "$complaint"; fi
else
	skip "the manuals render without a warning" "groff is not installed"
fi
cat "$dir/overview" "$dir/list" >>"$dir/help"
if [ "$(awk 'length > 80' "$dir/help" | wc -l)" = 0 ]; then ok "--help fits 80 columns"
else bad "--help fits 80 columns" "$(awk 'length > 80' "$dir/help" | head -n 1)"; fi
if [ "$(wc -l <"$dir/overview")" -le 24 ]; then ok "weir --help is one screen"; else bad "weir --help is one screen" "$(wc -l <"$dir/overview") lines"; fi
cut -d' ' -f2 "$dir/commands" | sort -u >"$dir/words"
tr '|' ' ' <"$dir/overview" >"$dir/words_said"
each "every command's first word is on it" "$dir/words" "$dir/words_said"
finish
