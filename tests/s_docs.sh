#!/bin/sh
# tests/s_docs.sh - the help, the manual and the README say the same: options, commands, files, tests.
#
# WEIR is the program (default ./weir).  Needs no model.  Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2013 # words, not lines
set -u
cd "$(dirname "$0")/.." || exit 1
weir=${WEIR:-./weir}

. tests/count.sh
[ -x "$weir" ] || { bad docs "no program at '$weir'"; finish; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# each NAME LIST FILE: every line of LIST stands in FILE.
each() {
	[ -s "$2" ] || { bad "$1" "nothing to compare"; return; }
	missing=$(while read -r word; do
		grep -q -F -e "$word" "$3" || printf "'%s' " "$word"
	done <"$2")
	if [ -z "$missing" ]; then ok "$1"; else bad "$1" "missing: $missing"; fi
}

"$weir" --help >"$dir/help"
# The manual as plain words: requests, fonts and escapes away.
sed -e 's/^\.[A-Za-z]* *//' -e 's/\\f[A-Z]//g' -e 's/\\-/-/g' -e 's/"//g' -e 's/\\(dq/"/g' man/weir.1 >"$dir/man"
grep -o -- '--[a-z][a-z-]*' README.md | sort -u >"$dir/readme_options"
sed -n 's/^ *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' "$dir/help" | sort -u >"$dir/options"
sed -n 's/^ *\(-.\), --.*/\1/p' "$dir/help" | sort -u >"$dir/shorts"
sed -n '/^\.SH OPTIONS/,/^\.SH CHAT/p' man/weir.1 | sed -n '/^\.B[IR]* /s/\\-/-/gp' | grep -o -- '--[a-z][a-z-]*' | sort -u >"$dir/man_options"
sed -n '/^commands:/,/^options:/s/^  weir /weir /p' "$dir/help" | sed -e 's/  .*//' -e 's/ [[A-Z].*//' | sort -u >"$dir/commands"

each "every option of --help is in the manual" "$dir/options" "$dir/man_options"
each "every option of the manual is in --help" "$dir/man_options" "$dir/options"
each "every option of the README is in --help" "$dir/readme_options" "$dir/options"
each "every short option is in the manual" "$dir/shorts" "$dir/man"
each "every command of --help is in the manual" "$dir/commands" "$dir/man"
each "every command of --help is in the README" "$dir/commands" README.md
grep -o '\[WEIR_[A-Z]*\]' "$dir/help" | tr -d '[]' | sort -u >"$dir/variables"
# "temp 0.3" where --temp says so
defaults() {
	tr '\n' ' ' <"$1" | sed -e 's/ --/\n--/g' -e 's/Default:/default/g' |
		sed -n 's/^--\([a-z-]*\) .*default *\([-0-9.,]*[0-9]\).*/\1 \2/p' | sort -u
}
defaults "$dir/help" >"$dir/defaults"
defaults "$dir/man" >"$dir/man_defaults"
if [ "$(wc -l <"$dir/defaults")" -ge 12 ]; then each "every default value is in the manual" "$dir/defaults" "$dir/man_defaults"
else bad "every default value is in the manual" "the help was not understood: $(tr '\n' '|' <"$dir/defaults")"; fi
each "every environment variable is in the manual" "$dir/variables" "$dir/man"

# The tables in the source are what /help prints.
sed -n 's/^\t{"\(\/[a-z]*\)".*/\1/p' app/chat*.c app/tui_commands.c | sort -u >"$dir/slashes"
each "every slash command is in the manual" "$dir/slashes" "$dir/man"
each "every slash command is in the README" "$dir/slashes" README.md
"$weir" --help keys | sed -n '/^Commands/q; s/^ \([^ ].*[^ ]\)   *[^ ].*/\1/p' | sort -u >"$dir/keys"
sed -n '/^THE SCREEN/,/^CHAT/p' "$dir/man" >"$dir/man_keys"
if [ "$(wc -l <"$dir/keys")" -ge 40 ]; then each "every key of the screen is in the manual" "$dir/keys" "$dir/man_keys"
else bad "every key of the screen is in the manual" "--help keys was not understood"; fi

"$weir" --help | sed -n 's/^exit codes: //p' | tr ',' '\n' | sed 's/^ *\([0-9]*\).*/\1/' >"$dir/codes"
sed -n '/^EXIT STATUS/,/^ENVIRONMENT/p' "$dir/man" >"$dir/man_codes"
each "every exit code is in the manual" "$dir/codes" "$dir/man_codes"

# What the README says is supported.
sed -n '/^| families/p' README.md >"$dir/readme_families"
"$weir" doctor -m "$dir/none.gguf" | sed -n 's/^families *//p' | tr ' ' '\n' >"$dir/families"
each "every model family is in the README" "$dir/families" "$dir/readme_families"
sed -n 's/^\t\[DT_[A-Z0-9_]*\] *= { "\([A-Z0-9_]*\)".*/\1/p' kernels/quant.c | grep -v '^[IU][0-9]*$' >"$dir/types"   # less those of lists and copies
sed -n '/^| weights/p' README.md >"$dir/readme_types"
each "every weight type is in the README" "$dir/types" "$dir/readme_types"

# Tests and targets that the README names.
gone=
for name in $(grep -o '\b[ts]_[a-z]*\b' README.md | sort -u); do
	case $name in t_) continue ;; esac
	[ -e "tests/$name.c" ] || [ -e "tests/$name.sh" ] || gone="$gone $name"
done
for target in $(sed -n 's/.*`make \([a-z][a-z-]*\).*/\1/p' README.md | sort -u); do
	grep -q "^$target:\|^\.PHONY:.* $target\b" Makefile || gone="$gone make-$target"
done
if [ -z "$gone" ]; then ok "tests and targets of the README exist"; else bad "tests and targets of the README exist" "no$gone"; fi
if [ "$(head -n 1 man/weir.1 | grep -o '[0-9]*\.[0-9]*\.[0-9]*')" = "$("$weir" --version | cut -d' ' -f2)" ]; then ok "the manual has the version"
else bad "the manual has the version" "$(head -n 1 man/weir.1), $("$weir" --version)"; fi

if command -v groff >/dev/null 2>&1; then
	complaint=$(groff -man -Tutf8 -ww -z man/weir.1 2>&1 | head -n 3)
	if [ -z "$complaint" ]; then ok "the manual renders without a warning"; else bad "the manual renders without a warning" "$complaint"; fi
else
	skip "the manual renders without a warning" "groff is not installed"
fi
for command in $(sed 's/^weir //; s/ /+/' "$dir/commands"); do
	# shellcheck disable=SC2046 # one or two words
	"$weir" $(echo "$command" | tr + ' ') --help >>"$dir/help"
done
if [ "$(awk 'length > 80' "$dir/help" | wc -l)" = 0 ]; then ok "--help fits 80 columns"
else bad "--help fits 80 columns" "$(awk 'length > 80' "$dir/help" | head -n 1)"; fi
finish
