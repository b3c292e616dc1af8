#!/bin/sh
# tests/cli/s_screen_lost.sh - a mapped file is cut short during an answer on the full screen: the model's file, or the
# cache on disk.  One line reports it, the screen still works, and nothing of the session is lost.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model.  Closes with "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
set -u
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
how=

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"

left_clean() { all wait_for 20 ended -- cmp -s "$dir/before" "$dir/after" -- status_is 0; }
lines_with() { [ "$(screen | grep -c -e "$2")" = "$1" ]; }

# The cache's file was unlinked, so it is found by the program's descriptor.
cut_cache() {
	for f in /proc/"$(program)"/fd/*; do
		case $(readlink "$f") in "$dir"/cache/weir/*'(deleted)') truncate -s 0 "$f" && return ;; esac
	done
	return 1
}
cut_model() { truncate -s 100000 "$model"; }

whole=$model columns=160
model=$dir/model.gguf

# set_n N: limit answers to N tokens from now on.
set_n() { ask "/set n $1"; wait_for 20 shows "^\\[n $1\\]"; }

# lost FILE SENTENCE OPTION...: cut the file in the middle of an answer and check for SENTENCE.
lost() {
	what=$1 says=$2
	shift 2
	cp "$whole" "$model"
	# shellcheck disable=SC2086 # several options
	start -s "$what" $without_end -n 16 "$@"
	wait_for 60 at_rest
	ask 'What is a mill?'
	wait_for 60 shows '^\[16 tokens, '
	wait_for 20 at_rest
	set_n 1000000
	ask "$endless"
	wait_for 60 shows ' answering '
	name="$what: the file is there to be cut"; pass "cut_$what"
	name="$what: one line says that it was cut, and the screen goes on"
	wait_for 60 at_rest
	pass all wait_for 60 shows "$says" -- wait_for 20 at_rest -- lines_with 1 "$says" -- shows "^ $what "
	ask "/model $whole"
	wait_for 60 shows 'tokens will be recomputed'
	set_n 8
	ask 'And at last?'
	name="$what: the whole model answers in the same talk"; pass all wait_for 60 shows '^\[8 tokens, ' -- wait_for 20 at_rest
	key F10
	name="$what: it ends with status 0, terminal as before"; pass left_clean
	XDG_DATA_HOME="$dir/data" "$weir" sessions export txt "$what" >"$dir/said" 2>&1
	name="$what: the session has all that was said"
	pass all grep -q 'What is a mill?' "$dir/said" -- grep -q 'Repeat the letter a forever' "$dir/said" -- grep -q 'And at last?' "$dir/said"
}

lost model '^file .*: changed while in use, or its disk failed: open the model anew'
# A second line says that the cache is not saved.
lost cache '^the disk failed under the KV cache: open the session anew' -c 2000 --kv-memory 30M

# The cache is cut before the question: no answer begins, and the question can be sent again.
cp "$whole" "$model"
start --temp 0 --seed 1 -n 8 -c 2000 --kv-memory 30M
wait_for 60 at_rest
name="early: the file is there to be cut"; pass cut_cache
ask 'What is a weir?'
name="early: a question that is not answered is withdrawn"; pass wait_for 60 shows '^\[the question is withdrawn; Up brings it back\]'
ask "/model $whole"
wait_for 60 shows '^\[model '
wait_for 20 at_rest
key Up Up
name="early: Up brings it back"; pass wait_for 20 shows '> What is a weir?$'
key Enter
name="early: the whole model answers it"; pass wait_for 60 shows '^\[8 tokens, '
key F10
name="early: it ends with status 0, terminal as before"; pass left_clean

finish
