#!/bin/sh
# tests/cli/s_private.sh - a private conversation leaves nothing in a file, however it ends: on the full screen, in line
# mode, with -p; with an answer, a document, an unsent draft, the editor, a kill.
#
# WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
set -u
weir=${WEIR:-./weir}
model=tests/vectors/models/llama-linear.gguf
how=

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"

shm=
[ ! -w /dev/shm ] || shm=$(mktemp -d /dev/shm/weir-private-XXXXXX)
trap 'cleanup; [ -z "$shm" ] || rm -rf "$shm"' EXIT
mkdir "$dir/tmp" "$dir/work" "$dir/own"
echo 'The quagga4712 grazes at noon.' >"$dir/own/document.txt"
export TMPDIR="$dir/tmp" XDG_RUNTIME_DIR="${shm:-$dir/tmp}"

# All files in the home, in the folders for state, settings, data and temporary files, and in the folder where weir
# runs, except those of this script.
files() { find "$dir" ${shm:+"$shm"} -type f ! -path "$dir/own/*" ! -name run ! -name before ! -name after ! -name status; }
# leaves_nothing NAME: check that there is no file, no word that was typed, read or answered, and no folder for a draft.
leaves_nothing() {
	found=$(files; grep -rl -e 'secret4711' -e 'quagga4712' -e 'draft4713' -e 'typed4714' "$dir" ${shm:+"$shm"} 2>/dev/null | grep -v "^$dir/own/"; find "$dir/tmp" ${shm:+"$shm"} -mindepth 1 2>/dev/null)
	if [ -z "$found" ]; then ok "$1"; else bad "$1" "$(echo "$found" | tr '\n' ' ')"; fi
}
# The folder where weir runs is empty, too.
begin() {
	cd "$dir/work" || exit 1
	start "$@" --temp 0 -n 6
	cd - >/dev/null || exit 1
}

# ---- the screen ----

begin --private "$dir/own/document.txt"
if wait_for at_rest; then ok "a private conversation comes up"; else bad "a private conversation comes up" "$(tail_of_screen)"; finish; fi
ask 'my pin is secret4711'
wait_for answered 'my pin is secret4711'
name="Up brings back what was typed here"; key Up; pass wait_for written secret4711
empty_line
ask '/undo'
wait_for at_rest
leave F10
leaves_nothing "screen: a question, its answer and a document"

for signal in TERM KILL; do
	begin --private
	wait_for at_rest
	ask 'my pin is secret4711'
	wait_for answered 'my pin is secret4711'
	write 'a draft4713 that is not sent'
	sleep 1.5   # drafts are written at most once a second
	kill "-$signal" "$(program)"
	wait_for ended
	leaves_nothing "screen: a draft that is left when it gets SIG$signal"
done

# ---- the editor ----

cat >"$dir/own/editor" <<'EOF'
#!/bin/sh
echo "$1" >"$OWN/where"
cp "$1" "$1~"
echo 'typed4714 in the editor' >>"$1"
while [ -e "$OWN/wait" ]; do sleep 0.05; done
EOF
chmod +x "$dir/own/editor"
export EDITOR="$dir/own/editor" OWN="$dir/own"
edited() { [ -s "$dir/own/where" ]; }
if [ -n "$shm" ]; then
	begin --private
	wait_for at_rest
	write 'a draft4713'
	key C-g
	name="the editor has the draft"; pass wait_for shows 'typed4714 in the editor'
	empty_line
	leave F10
	case $(cat "$dir/own/where") in "$shm"/weir-*/draft.md) ok "in a folder in memory" ;; *) bad "in a folder in memory" "$(cat "$dir/own/where")" ;; esac
	leaves_nothing "screen: a draft that was edited, and the editor's own copy"

	: >"$dir/own/wait"
	rm "$dir/own/where"
	begin --private
	wait_for at_rest
	write 'a draft4713'
	key C-g
	wait_for edited
	kill -KILL "$(program)"
	wait_for ended
	rm "$dir/own/wait"
	gone() { [ -z "$(find "$shm" -mindepth 1)" ]; }
	wait_for gone
	leaves_nothing "screen: killed while the editor runs, which ends later"
else
	skip "the editor has the draft" "there is no /dev/shm"
fi
unset EDITOR

# ---- line mode ----

how=--line
begin --private "$dir/own/document.txt"
wait_for at_prompt
send_line 'my pin is secret4711'
wait_for shows '^\[[0-9][0-9]* tokens'
wait_for at_prompt
type_text 'a draft4713'
wait_for typed draft4713
key C-c
wait_for at_prompt
key C-d
wait_for ended
leaves_nothing "line mode: a question, its answer, a document, a draft"
begin --private
wait_for at_prompt
send_line 'my pin is secret4711'
wait_for shows '^\[[0-9][0-9]* tokens'
kill -KILL "$(program)"
wait_for ended
leaves_nothing "line mode: killed"
how=

# ---- without a terminal ----

alone() { (cd "$dir/work" && env HOME="$dir" XDG_STATE_HOME="$dir/state" XDG_CONFIG_HOME="$dir/config" XDG_CACHE_HOME="$dir/cache" XDG_DATA_HOME="$dir/data" "$weir" -m "$model" --private -n 6 -q "$@") >/dev/null 2>&1; }
alone -p 'my pin is secret4711' "$dir/own/document.txt" </dev/null
leaves_nothing "-p with a document"
echo 'my pin is secret4711' | alone
leaves_nothing "a question from a pipe"
alone -p 'what about secret4711?' --docs passages "$dir/own/document.txt" </dev/null
leaves_nothing "-p with passages"

# ---- a conversation that is not private keeps what a private one does not ----

begin
wait_for at_rest
ask 'my pin is secret4711'
wait_for answered 'my pin is secret4711'
leave F10
name="another one has a history"; pass grep -q secret4711 "$dir/state/weir/history"
begin --private
wait_for at_rest
ask 'typed4714 in private'
wait_for answered 'typed4714 in private'
leave F10
if grep -rq typed4714 "$dir/state" "$dir/data"; then bad "a private one adds nothing to it" "$(grep -rl typed4714 "$dir/state" "$dir/data")"
else ok "a private one adds nothing to it"; fi

# ---- core files ----

dumps() { [ "$(sed -n 's/^Max core file size *\([^ ]*\).*/\1/p' "/proc/$(program)/limits")" != 0 ]; }
ulimit -c unlimited 2>/dev/null
begin --private
wait_for at_rest
name="a private conversation leaves no core file"; if dumps; then bad "$name" "$(grep core "/proc/$(program)/limits")"; else ok "$name"; fi
leave F10
finish
