/* ui/bindings.c - the keys of the full screen: where each holds, what it is called, what it does.
 *
 * One table for three readers: ui_keys.c looks up what a key does, the help pane and the manual print it.  Rows with
 * the same `where` stand together, they become a section of the help.  Rows without an act say what the input line or a
 * pane does itself. */
#include "ui/ui_private.h"

#define IN_TEXTS (IN_TALK | IN_DOCS | IN_HELP)

const struct binding bindings[] = {
	{ANYWHERE, "F1, Ctrl-X h", "this help", ACT_HELP},
	{ANYWHERE, "F2, Ctrl-X k", "show the cache: beside or below the talk, on the whole screen, not at all",
	 ACT_PANEL},
	{ANYWHERE, "F3, Ctrl-X /", "find words in the talk, or in the text that is open", ACT_FIND},
	{ANYWHERE, "F4, Ctrl-X s", "sessions: go on in another one, rename, fork, delete", ACT_SESSIONS},
	{ANYWHERE, "F5, Ctrl-X d", "documents", ACT_DOCUMENTS},
	{ANYWHERE, "F6, Ctrl-X o", "move to the talk or the open pane, to the cache beside or below, back to the line", ACT_NEXT},
	{ANYWHERE, "F8, Ctrl-X m", "let the mouse scroll (selecting text then needs Shift), or not", ACT_MOUSE},
	{ANYWHERE, "F10, Ctrl-X q", "quit", ACT_QUIT},
	{ANYWHERE, "Ctrl-X n", "begin a new talk", ACT_NEW},
	{ANYWHERE, "Ctrl-X y", "copy the last message", ACT_COPY},
	{ANYWHERE, "Ctrl-X t", "next colour theme", ACT_THEME},
	{ANYWHERE, "Ctrl-X r", "show answers as they came, or formatted", ACT_RAW},
	{ANYWHERE, "Ctrl-X e", "write the message in $VISUAL or $EDITOR", ACT_EDITOR},
	{ANYWHERE, "Esc", "one step back: close what is open, then stop the answer", ACT_BACK},
	{ANYWHERE, "Ctrl-C", "stop the answer; else put the draft into the history; else, twice, quit", ACT_STOP},
	{ANYWHERE, "Ctrl-L", "draw everything anew", ACT_REPAINT},
	{ANYWHERE, "Ctrl-Z", "suspend the program; fg brings it back", ACT_SUSPEND},

	{IN_INPUT, "Enter", "send; while an answer runs the message waits for its end", ACT_NONE},
	{IN_INPUT, "Alt-Enter, Ctrl-J", "begin a new line", ACT_NONE},
	{IN_INPUT, "Up, Down", "move between the lines of the draft, then through the history", ACT_NONE},
	{IN_INPUT, "Up", "without a draft: take back the message that waits", ACT_UNQUEUE},
	{IN_INPUT, "Ctrl-R", "search the history", ACT_NONE},
	{IN_INPUT, "Tab", "complete commands, their arguments, and @FILE", ACT_NONE},
	{IN_INPUT, "Tab", "without a draft: move to the talk", ACT_NEXT_EMPTY},
	{IN_INPUT, "Ctrl-G", "write the message in $VISUAL or $EDITOR", ACT_EDITOR},
	{IN_INPUT, "Ctrl-_", "undo", ACT_NONE},
	{IN_INPUT, "Esc Esc", "without a draft: ask the last question differently", ACT_NONE},
	{IN_INPUT, "PgUp", "scroll the talk up", ACT_PAGE_UP},
	{IN_INPUT, "PgDn", "scroll the talk down", ACT_PAGE_DOWN},
	{IN_INPUT, "Home", "without a draft: to the beginning of the talk", ACT_TOP_EMPTY},
	{IN_INPUT, "End", "without a draft: to the end of the talk, and follow it again", ACT_END_EMPTY},
	{IN_INPUT, "?", "without a draft: this help", ACT_HELP_EMPTY},
	{IN_INPUT, "Ctrl-D", "without a draft: quit", ACT_QUIT_EMPTY},

	{IN_TEXTS, "k, Up", "a line up", ACT_UP},
	{IN_TEXTS, "j, Down", "a line down", ACT_DOWN},
	{IN_TEXTS, "u, Ctrl-U", "half a page up", ACT_HALF_UP},
	{IN_TEXTS, "d, Ctrl-D", "half a page down", ACT_HALF_DOWN},
	{IN_TEXTS, "b, PgUp, Ctrl-B", "a page up", ACT_PAGE_UP},
	{IN_TEXTS, "f, Space, PgDn, Ctrl-F", "a page down", ACT_PAGE_DOWN},
	{IN_TEXTS, "g, Home", "to the beginning", ACT_TOP},
	{IN_TEXTS, "G, End", "to the end", ACT_END},
	{IN_TEXTS, "/", "find words, downwards", ACT_FIND_DOWN},
	{IN_TEXTS, "n", "the next place that was found", ACT_AGAIN},
	{IN_TEXTS, "N", "the one before", ACT_AGAIN_BACK},
	{IN_TEXTS, "q", "back to the input line", ACT_LINE},

	{IN_TALK, "?", "find words, upwards", ACT_FIND_UP},
	{IN_TALK, "[", "to the question before", ACT_QUESTION_UP},
	{IN_TALK, "]", "to the next question", ACT_QUESTION_DOWN},
	{IN_TALK, "y", "copy the message, exactly as it came", ACT_COPY},
	{IN_TALK, "c", "copy the last block of code", ACT_COPY_CODE},
	{IN_TALK, "e", "ask the last question differently", ACT_EDIT},
	{IN_TALK, "r", "answer the last question again", ACT_RETRY},
	{IN_TALK, "z", "fold the message to its first line, or unfold it", ACT_FOLD},
	{IN_TALK, "m", "mark this place", ACT_MARK},
	{IN_TALK, "'", "jump to the mark, and back", ACT_JUMP},
	{IN_TALK, "i, Tab, Enter", "back to the input line", ACT_LINE},

	{IN_DOCS, "?", "find words, upwards", ACT_NONE},
	{IN_DOCS, "o", "outline: headings or pages, to jump to", ACT_NONE},
	{IN_DOCS, "], Tab", "the next document", ACT_NONE},
	{IN_DOCS, "[, Shift-Tab", "the document before", ACT_NONE},
	{IN_DOCS, "40%, 12p, 7g", "to that percent, page or line", ACT_NONE},

	{IN_SESSIONS, "letters", "filter the list", ACT_NONE},
	{IN_SESSIONS, "Up, Down", "choose", ACT_NONE},
	{IN_SESSIONS, "Enter", "go on in that session", ACT_NONE},
	{IN_SESSIONS, "Tab", "show the end of its talk", ACT_NONE},
	{IN_SESSIONS, "Ctrl-R", "rename it", ACT_NONE},
	{IN_SESSIONS, "Ctrl-F", "fork it: go on in a copy", ACT_NONE},
	{IN_SESSIONS, "Ctrl-D", "delete it; asks first", ACT_NONE},

	{IN_SESSIONS, "/", "and words: those sessions in which they were said", ACT_NONE},

	{IN_CACHE, "j, k", "the next layer, the one before", ACT_NONE},
	{IN_CACHE, "Space, PgDn, PgUp", "eight layers on, or back", ACT_NONE},
	{IN_CACHE, "g, G", "the first layer, the last one", ACT_NONE},
	{IN_CACHE, "+, -", "zoom in and out", ACT_NONE},
	{IN_CACHE, "h, l", "to the left and right, when zoomed in", ACT_NONE},
	{IN_CACHE, "c", "colours or characters", ACT_NONE},
	{IN_CACHE, "?", "what the numbers mean", ACT_NONE},

	{0},
};
