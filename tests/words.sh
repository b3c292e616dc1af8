#!/bin/sh
# tests/words.sh - checks that each thing has one name in comments, messages and pages; run by `make check-words` and
# `make check`.
#
#   tests/words.sh             names each line that says a thing by a word that is not its own, where there are more than allowed
#   tests/words.sh --lower     writes tests/words.txt anew where there are fewer by now; it never allows more
#
# `words` below has a line for each thing: a name, what to say, and the wrong words as a regular expression (in lower
# case, with word ends at both ends).  They are phrases that are hardly plain English: "talk" after an article, not
# "talk to".  Names in code do not count.  tests/words.txt tells how many such lines a folder may still have; without an
# entry it may have none.
set -u
cd "$(dirname "$0")/.." || exit 1

words='
talk|conversation, or session where it is stored|(a|an|the|this|that|each|every|your|whole|new|old|other|another|of|its|one|long|stored|saved|last|next|endless) talks?
exchange|turn|(an|the|this|each|every|last|first|whole|one|of) exchanges?
record|session log, session|(the|a|this|whole) records? (of|holds|is kept|goes on|has)( the| a)? (conversation|talk|chat|session)?
thoughts|reasoning|(its|the|a|of|with|without|hidden|hides?|shows?|earlier|own|all|from|no|such|these|model.s) thoughts
take-back|roll back (engine), undo (user)|(tak(e|es|en|ing)|took) (it|them|tokens|turns?|messages|a turn|the turn|the question|an answer) back|(takes?|taken|took|brought) back|nothing to bring back
let-go|evict|(lets?|letting|was|were|been|are|is|be) go( of)? (rows?|tokens?|entries|keys|slots?)|let go|evicts? away
gone|evicted|(rows?|tokens?|entries|keys) (that|which) (are|is|were|was|have|has) gone|gone (rows?|tokens?|entries)
cached-rows|KV entries, slots|cached (rows?|columns?)|(cache|kv).?s? (rows?|columns?)|(rows?|columns?) of (the|a) (kv )?cache
chosen-rows|selected entries, selection|(chosen|choosing|chooses|choose) (rows|keys|tokens|entries|columns|slots)|(rows|keys|tokens|entries|slots) (are|were) chosen
best-rows|selected entries, the top k|best (rows|entries|keys|columns)
copy-of-keys|key sketch|(2-bit|4-bit|8-bit|low-bit|coarse) cop(y|ies)|cop(y|ies) of (the |its |all )?keys
keeping-ways|retention policy|(keeping|retaining) ways?|ways? of keeping
take-in|prefill (users: read)|taken in[,.;:]
what-is-saved|snapshot|what is saved
piece|passage|pieces? of (a |the |its )?(document|text of a document)s?
'

list_files() {
  if [ -e .git ] && git ls-files --cached --others --exclude-standard 2> /dev/null; then
    return
  fi
  find . -type f ! -path './.git/*' ! -path './build*' | sed 's|^\./||'
}

# "FOLDER WORD FILE:LINE: what to say" for each line. A file at the top level counts as a folder of its own.
# shellcheck disable=SC2016 # the program is awk's
find_words() {
  list_files | grep -E '\.(c|h|cc|cu|cuh|sh|md|1|5|7)$|^Makefile$' | grep -vxE 'tests/words\.sh|tests/cli/s_house\.sh|LICENSE' |
    while read -r name; do
      [ -f "$name" ] && echo "$name"
    done | LC_ALL=C WORDS="$words" xargs awk '
    BEGIN {
      n = split(ENVIRON["WORDS"], line, "\n")
      for (i = 1; i <= n; i++)
        if (split(line[i], part, "|") >= 3) {
          name[++n_word] = part[1]
          say[n_word] = part[2]
          wrong[n_word] = "(^|[^a-z0-9_])(" substr(line[i], length(part[1]) + length(part[2]) + 3) ")([^a-z0-9_]|$)"
        }
    }
    # Returns the comments and strings of a line of C, separated by a bar for code between them.
    function prose_of(s,    out) {
      out = ""
      while (s != "") {
        if (in_comment) {
          if (!match(s, /\*\//))
            return out s
          out = out substr(s, 1, RSTART - 1) "|"
          s = substr(s, RSTART + 2)
          in_comment = 0
        } else if (!match(s, /\/\*|\/\/|"|\047/)) {
          return out
        } else {
          s = substr(s, RSTART)
          if (substr(s, 1, 2) == "//")
            return out substr(s, 3)
          if (substr(s, 1, 2) == "/*") {
            in_comment = 1
            s = substr(s, 3)
          } else if (match(s, /^"(\\.|[^"\\])*"/) || match(s, /^\047(\\.|[^\047\\])*\047/)) {
            out = out substr(s, 2, RLENGTH - 2) "|"
            s = substr(s, RLENGTH + 1)
          } else {
            return out
          }
        }
      }
      return out
    }
    FNR == 1 {
      in_comment = 0
      folder = FILENAME
      sub(/\/.*/, "", folder)
      is_c = FILENAME ~ /\.(c|h|cc|cu|cuh)$/
    }
    {
      text = tolower(is_c ? prose_of($0) : $0)
      if (text == "")
        next
      for (i = 1; i <= n_word; i++)
        if (text ~ wrong[i])
          print folder, name[i], FILENAME ":" FNR ": say " say[i]
    }'
}

case ${1:-} in
--lower)
  find_words | awk '
    FILENAME == "tests/words.txt" { if (!/^#/) allowed[$1 " " $2] = $3; else print; next }
    { count[$1 " " $2]++ }
    END { for (k in allowed) if (k in count) print k, (count[k] < allowed[k] ? count[k] : allowed[k]) | "sort" }' tests/words.txt - > tests/words.new &&
    mv tests/words.new tests/words.txt
  exit ;;
esac

find_words | awk '
  FILENAME == "tests/words.txt" { if (!/^#/) allowed[$1 " " $2] = $3; next }
  {
    k = $1 " " $2
    count[k]++
    sub(/^[^ ]* [^ ]* /, "")
    where[k] = where[k] $0 "\n"
  }
  END {
    for (k in count)
      if (count[k] > allowed[k]) {
        printf "%s", where[k]
        split(k, part, " ")
        printf "%s: %d lines with \047%s\047, allowed are %d (tests/words.txt)\n", part[1], count[k], part[2], allowed[k]
        bad = 1
      } else
        fewer += count[k] < allowed[k]
    for (k in allowed)
      fewer += !(k in count)
    if (!bad)
      print "words: ok" (fewer ? "; tests/words.txt allows more than there are: tests/words.sh --lower" : "")
    exit bad
  }' tests/words.txt -
