#!/bin/sh
# tests/layers.sh - checks the structure of the source tree; run by `make check-layers` and `make check`.
#
#   kernels <- engine <- sessions <- ui <- app       who may include what (tests may include anything)
#   in a house a room includes headers of its own and of the rooms before it:
#     kernels    common <- { cpu, cuda }
#     engine     base <- jinja <- gguf <- token <- template <- model <- cache <- policies <- observe <- forward <- encoder <- timeline <- lab
#     sessions   fetch <- import <- store <- snap, each by its door
#     ui         text <- screen <- input <- transcript <- panes
#     app        term <- options <- remote <- models <- conversation <- summary <- retrieval <- stream <- chat <- { line, tui },
#                stream <- { tools, lab }, each by its door; nobody includes lab, which is a program of its own; sessions/ from summary on, and for what a remote server sends
#   files directly in a house see all of its rooms; a door is ROOM/ROOM.h
#   the engine's doors: engine.h for all; engine_chat.h for all but ui; engine_view.h and engine_machine.h for the engine and app;
#   engine_snapshot.h for sessions/snap and app; lab/lab.h for app/lab alone
#   turn hooks of a conversation (retrieval, stream) include app/conversation/turn_hook.h, too
#   `known` below are includes against this order that are to go
#   curses only in ui/screen/display*, SQLite only in sessions/store, sessions/snap and sessions/libraries.c
#   no function that cannot be told the size of its buffer, none that hides a parse error
#   no source file above 1500 lines; nothing unexpected at the top level
#
# Prints each offence as FILE:LINE: WHY and exits 1, or prints "layers: ok".
set -u
cd "$(dirname "$0")/.." || exit 1

# Files that git knows or would add.  Without git (a source archive), all files except build products.
list_files() {
  if [ -e .git ] && git ls-files --cached --others --exclude-standard 2>/dev/null; then
    return
  fi
  find . -type f ! -path './.git/*' ! -path './build*' ! -name '*.o' | sed 's|^\./||' |
    grep -vxE 'weir|weir-lab|weir-cuda\.so|compile_commands\.json'
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
  # The program is awk, not shell.
  # shellcheck disable=SC2016
  list_files | grep -E '\.(c|h|cu|cuh|sh|py|md)$|(^|/)Makefile$' | while read -r name; do
    [ -f "$name" ] && echo "$name"
  done | xargs awk '
    # Returns the line without comments and with empty strings.
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
    function check_include(    path, quoted, ok, to) {
      if (!match($0, /[<"][^>"]*[>"]/))
        return
      quoted = substr($0, RSTART, 1) == "\""
      path = substr($0, RSTART + 1, RLENGTH - 2)
      if (folder != "tests") {
        if (path ~ /curses|^(term|panel|menu|form)\.h$/ && FILENAME !~ /^ui\/screen\/display(_[a-z]+)?\.[ch]$/)
          offence("curses outside ui/screen/display*: " path)
        if (path ~ /sqlite/ && folder !~ /^sessions(\/(store|snap))?$/)
          offence("SQLite outside sessions/: " path)
        if (path ~ /cuda|cublas/ && !quoted && FILENAME !~ /^kernels\/cuda\//)
          offence("CUDA outside kernels/cuda/: " path)
      }
      if (!(folder in open_to))
        return
      # <...> is for system headers only: a project header found through -I. would escape the rules.
      if (!quoted) {
        if (path ~ /^(app|engine|kernels|sessions|ui|tests)\//)
          offence("project header in <>: " path)
        return
      }
      to = path
      sub(/\/[^\/]*$/, "", to)
      if (to == folder)
        ok = 1
      else if (index(open_to[folder], " " path " "))
        ok = 1
      else if (house != "app" && index(to "/", house "/") == 1)
        ok = folder == house || (to in rank && folder in rank && rank[to] < rank[folder] && (house != "sessions" || is_door(path)))
      else
        ok = 0
      if ((!ok && !((folder " " path) in known)) || path ~ /\.\./)
        offence(folder " may not include " path)
    }
    # A door has the path ROOM/ROOM.h.
    function is_door(path,    part, n) {
      n = split(path, part, "/")
      return n == 3 && part[3] == part[2] ".h"
    }
    # The rooms of a house from the ground up, with { and } around rooms on the same level; `all`: what all of them may
    # include.
    function rooms(house, list, all,    room, n, i, floor, beside) {
      n = split(list, room, " ")
      open_to[house] = all
      for (i = 1; i <= n; i++) {
        if (room[i] == "{" || room[i] == "}") {
          beside = room[i] == "{"
          floor++
          continue
        }
        if (!beside)
          floor++
        rank[house "/" room[i]] = floor
        open_to[house "/" room[i]] = all
      }
    }
    BEGIN {
      rooms("kernels", "common { cpu cuda }", " kernels/backend.h kernels/macros.h kernels/os.h ")
      rooms("engine", "base jinja gguf token template model cache policies observe forward encoder timeline lab", " kernels/backend.h kernels/macros.h kernels/os.h engine/encoder.h engine/engine.h engine/engine_chat.h engine/engine_machine.h engine/engine_view.h ")
      open_to["engine/timeline"] = open_to["engine/lab"] = open_to["engine"] "engine/engine_private.h engine/engine_snapshot.h "
      open_to["engine"] = open_to["engine"] "kernels/device_check.h " # for gpu.c
      rooms("sessions", "fetch import store snap", " kernels/os.h engine/encoder.h engine/engine.h engine/engine_chat.h engine/base/base.h engine/base/sentences.h engine/base/utf8.h ")
      open_to["sessions/import"] = open_to["sessions/import"] "engine/base/json.h " # for notebooks
      open_to["sessions/snap"] = open_to["sessions/snap"] "engine/engine_snapshot.h "
      rooms("ui", "text screen input transcript panes", " ui/ui.h sessions/import/import.h engine/base/base.h engine/base/utf8.h ")
      below = " kernels/os.h engine/encoder.h engine/engine.h engine/engine_chat.h engine/engine_machine.h engine/engine_view.h engine/engine_snapshot.h engine/base/base.h engine/base/json.h engine/base/sentences.h engine/base/utf8.h ui/ui.h ui/text/text.h "
      n_app = split("term options remote models conversation summary retrieval stream chat", app, " ")
      for (i = 1; i <= n_app; i++) {
        open_to["app/" app[i]] = below (app[i] == "remote" ? "sessions/fetch/fetch.h " : "")
        below = below "app/" app[i] "/" app[i] ".h "
        # A conversation does not know how it is stored.
        if (app[i] == "conversation")
          below = below "sessions/fetch/fetch.h sessions/import/import.h sessions/store/store.h sessions/snap/snap.h sessions/sessions.h "
        if (app[i] == "stream") {
          open_to["app/tools"] = below
          open_to["app/lab"] = below "app/start.h engine/lab/lab.h "
        }
      }
      open_to["app/line"] = open_to["app/tui"] = below
      open_to["app"] = below "app/line/line.h app/tui/tui.h app/tools/tools.h "
      open_to["app/retrieval"] = open_to["app/retrieval"] "app/conversation/turn_hook.h "
      open_to["app/stream"] = open_to["app/stream"] "app/conversation/turn_hook.h "
      # Known includes against the order.  The database of snapshots is beside that of the store and is opened by the
      # same functions; a document from the web is fetched with settings of its own.
      split("sessions/snap sessions/store/store_private.h|sessions/import sessions/fetch/curl.h", list, "|")
      for (i in list)
        known[list[i]] = 1
    }
    FNR == 1 {
      in_comment = 0
      folder = house = FILENAME
      sub(/\/.*/, "", house)
      sub(house ~ /^(app|engine|kernels|sessions|ui)$/ ? "/[^/]*$" : "/.*", "", folder)
      if (house ~ /^(app|engine|kernels|sessions|ui)$/ && FILENAME ~ /\.(c|h|cu|cuh|cc)$/ && !(folder in open_to))
        offence(folder " has no place in the order of rooms")
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
