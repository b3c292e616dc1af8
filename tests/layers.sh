#!/bin/sh
# tests/layers.sh - keeps the house in order; run by `make check-layers` and `make check`.
#
#   kernels <- engine <- sessions <- ui <- app       who may include what (tests may include anything)
#   in app/: term <- options <- remote <- conversation <- chat <- { line, tui }, conversation <- { eval, tools }, main.c above all;
#   sessions/ from chat, eval and tools on, and for what a remote server sends
#   each folder is entered by one header, its door
#   curses only in ui/display*, SQLite only in sessions/
#   no function that cannot be told the size of its buffer, none that hides a parse error
#   no source file above 1500 lines; nothing unexpected at the top level
#
# Prints each offence as FILE:LINE: WHY and exits 1, or prints "layers: ok".
set -u
cd "$(dirname "$0")/.." || exit 1

# What git knows, and what it would add.  Without git (a source archive), all but build products.
list_files() {
  if [ -e .git ] && git ls-files --cached --others --exclude-standard 2>/dev/null; then
    return
  fi
  find . -type f ! -path './.git/*' ! -path './build*' ! -name '*.o' | sed 's|^\./||' |
    grep -vxE 'weir|weir-cuda\.so|compile_commands\.json'
}

check_top() {
  list_files | sed 's|/.*||' | sort -u | while read -r name; do
    case $name in
      app | engine | kernels | ui | sessions | tests | man | Makefile | README.md | HACKING.md | LICENSE | .*) ;;
      *) echo "$name:0: not a name for the top level" ;;
    esac
  done
}

check_sources() {
  # The program is awk's, not the shell's.
  # shellcheck disable=SC2016
  list_files | grep -E '\.(c|h|cu|cuh|sh|py|md)$|(^|/)Makefile$' | while read -r name; do
    [ -f "$name" ] && echo "$name"
  done | xargs awk '
    # The line without its comments, strings emptied.
    function code_of(s,    out, start) {
      out = ""
      while (s != "") {
        if (in_comment) {
          if (!match(s, /\*\//))
            return out
          s = substr(s, RSTART + 2)
          in_comment = 0
          out = out " "
          continue
        }
        if (!match(s, /\/\*|\/\/|"|\047/))
          return out s
        out = out substr(s, 1, RSTART - 1)
        s = substr(s, RSTART)
        start = substr(s, 1, 2)
        if (start == "//")
          return out
        if (start == "/*") {
          in_comment = 1
          s = substr(s, 3)
        } else if (match(s, /^"(\\.|[^"\\])*"/) || match(s, /^\047(\\.|[^\047\\])*\047/)) {
          s = substr(s, RLENGTH + 1)
          out = out "\"\""
        } else {
          return out
        }
      }
      return out
    }
    function offence(why) {
      print FILENAME ":" FNR ": " why
    }
    function check_include(    path, quoted, ok) {
      if (!match($0, /[<"][^>"]*[>"]/))
        return
      quoted = substr($0, RSTART, 1) == "\""
      path = substr($0, RSTART + 1, RLENGTH - 2)
      if (folder != "tests") {
        if (path ~ /curses|^(term|panel|menu|form)\.h$/ && FILENAME !~ /^ui\/display(_[a-z]+)?\.[ch]$/)
          offence("curses outside ui/display*: " path)
        if (path ~ /sqlite/ && folder != "sessions")
          offence("SQLite outside sessions/: " path)
        if (path ~ /cuda|cublas/ && !quoted && FILENAME !~ /^kernels\/cuda\//)
          offence("CUDA outside kernels/cuda/: " path)
      }
      if (!(folder in allowed))
        return
      # <...> is for the system: a project header found through -I. would slip past the rule.
      if (!quoted) {
        if (path ~ /^(app|engine|kernels|sessions|ui|tests)\//)
          offence("project header in <>: " path)
        return
      }
      ok = (index(path, folder "/") == 1 && (folder != "app" || path !~ /^app\/.*\//)) || index(allowed[folder], " " path " ") > 0
      if (!ok || path ~ /\.\./)
        offence(folder " may not include " path)
    }
    BEGIN {
      allowed["kernels"]  = " "
      allowed["engine"]   = " kernels/backend.h "
      allowed["sessions"] = " engine/engine.h engine/base.h "
      allowed["ui"]       = " sessions/sessions.h engine/base.h "
      # In app/ a door is FOLDER/FOLDER.h; a folder may use those below it.
      below = " engine/engine.h engine/base.h ui/ui.h "
      n_app = split("term options remote conversation chat", app, " ")
      for (i = 1; i <= n_app; i++) {
        allowed["app/" app[i]] = below (app[i] == "remote" ? "sessions/sessions.h " : "")
        below = below "app/" app[i] "/" app[i] ".h "
        # A conversation knows nothing of what is stored of it.
        if (app[i] == "conversation") {
          below = below "sessions/sessions.h "
          allowed["app/eval"] = allowed["app/tools"] = allowed["app/train"] = below
        }
      }
      allowed["app/line"] = allowed["app/tui"] = below
      allowed["app"] = below "app/line/line.h app/tui/tui.h app/eval/eval.h app/tools/tools.h app/train/train.h "
    }
    FNR == 1 {
      in_comment = 0
      folder = FILENAME
      sub(folder ~ /^app\/.*\// ? "/[^/]*$" : "/.*", "", folder)
      is_c = FILENAME ~ /\.(c|h|cu|cuh)$/
    }
    FNR == 1501 {
      offence("more than 1500 lines")
    }
    is_c {
      if (!in_comment && /^[ \t]*#[ \t]*include/)
        check_include()
      code = code_of($0)
      if (match(code, /(^|[^A-Za-z0-9_])(strcpy|strcat|sprintf|vsprintf|strtok|atoi|localtime|gets)[ \t]*\(/)) {
        name = substr(code, RSTART, RLENGTH)
        gsub(/[^a-z]/, "", name)
        offence("banned function " name)
      }
    }
  '
}

offences=$(check_top; check_sources)
if [ -n "$offences" ]; then
  printf '%s\n' "$offences"
  exit 1
fi
echo "layers: ok"
