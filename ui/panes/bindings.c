/* ui/panes/bindings.c - the table of keys: where on the screen a key is valid, its name, and its action.
 *
 * ui_keys.c finds the row of a key, ui_acts.c runs its action; the help pane and the manual print the table. Rows with
 * the same `where` form one section of the help and must be adjacent. Rows without an action describe keys that the
 * input line or a pane handles. */
#include "ui/panes/panes.h"

#define OPEN_TEXTS   (IN_DOCUMENTS | IN_HELP)
#define BROWSE_TEXTS (BROWSING | IN_TRANSCRIPT | IN_DOCUMENTS | IN_HELP)

/* clang-format off */
const struct binding bindings[] = {
	{ANYWHERE, "F1, Ctrl-X h", "this help", ACT_PANE + HELP},
	{ANYWHERE, "Ctrl-P, Ctrl-X p", "the palette: commands, keys, settings, documents and sessions by what they are called or do", ACT_PANE + PALETTE},
	{ANYWHERE, "F2, Ctrl-X k", "show the KV cache: beside or below the transcript, on the whole screen, not at all",
	 ACT_PANEL},
	{ANYWHERE, "F3, Ctrl-X /", "find words in the transcript, or in the text that is open; again: the next match", ACT_FIND},
	{ANYWHERE, "Shift-F3", "the match before", ACT_FIND_BACK},
	{ANYWHERE, "F4, Ctrl-X s", "sessions: switch, rename, fork, delete", ACT_PANE + SESSIONS},
	{ANYWHERE, "F5, Ctrl-X d", "documents", ACT_PANE + DOCUMENTS},
	{ANYWHERE, "F6, Ctrl-X o", "browse mode: letters are keys of the transcript or of what is open; again: of the cache beside "
	 "or below; then back to writing", ACT_NEXT},
	{ANYWHERE, "F7, Ctrl-X w", "where the last answer comes from: its sources in the documents, one after the other", ACT_SOURCE},
	{ANYWHERE, "F8, Ctrl-X m", "give the mouse to the terminal, or back: with it a click on [1] opens that source, one below presses that key, dragging copies", ACT_MOUSE},
	{ANYWHERE, "F10, Ctrl-X q", "quit", ACT_QUIT},
	{ANYWHERE, "Ctrl-X n", "begin a new conversation", ACT_NEW},
	{ANYWHERE, "Ctrl-X y", "copy the last message", ACT_COPY_LAST},
	{ANYWHERE, "Ctrl-X c", "copy the last block of code", ACT_COPY_CODE},
	{ANYWHERE, "Ctrl-X g", "regenerate the last answer", ACT_RETRY},
	{ANYWHERE, "Ctrl-X t", "next colour theme", ACT_THEME},
	{ANYWHERE, "Ctrl-X r", "toggle formatted and raw answers", ACT_RAW},
	{ANYWHERE, "Ctrl-X e", "write the message in $VISUAL or $EDITOR", ACT_EDITOR},
	{ANYWHERE, "Esc", "close what is open; then stop the answer", ACT_BACK},
	{ANYWHERE, "Ctrl-C", "stop the answer; else move the draft to the history; else, pressed twice, quit", ACT_STOP},
	{ANYWHERE, "Ctrl-L", "redraw the screen", ACT_REPAINT},
	{ANYWHERE, "Ctrl-Z", "suspend the program; fg brings it back", ACT_SUSPEND},

	{IN_INPUT, "letters", "are written here, whatever is open, but for browse mode and fields with a cursor", ACT_NONE},
	{IN_INPUT, "Enter", "send; during an answer the message is queued", ACT_NONE},
	{IN_INPUT, "Alt-Enter, Ctrl-J", "begin a new line", ACT_NONE},
	{IN_INPUT, "Up, Down", "move between lines of the draft, then through the history", ACT_NONE},
	{IN_INPUT, "Up", "without a draft: edit the message queued last", ACT_UNQUEUE},
	{IN_INPUT, "Ctrl-R", "search the history", ACT_NONE},
	{IN_INPUT, "Tab", "complete commands, their arguments, and @FILE", ACT_NONE},
	{IN_INPUT, "Ctrl-G", "write the message in $VISUAL or $EDITOR", ACT_EDITOR},
	{IN_INPUT, "Ctrl-_", "undo", ACT_NONE},
	{IN_INPUT, "Esc Esc", "without a draft: edit the last question", ACT_NONE},
	{IN_INPUT, "PgUp", "scroll the transcript up", ACT_PAGE_UP},
	{IN_INPUT, "PgDn", "scroll the transcript down", ACT_PAGE_DOWN},
	{IN_INPUT, "Alt-Up", "to the question before", ACT_QUESTION_UP},
	{IN_INPUT, "Alt-Down", "to the next question", ACT_QUESTION_DOWN},
	{IN_INPUT, "Home", "without a draft: to the beginning of the transcript", ACT_TOP_EMPTY},
	{IN_INPUT, "End", "without a draft: to the end of the transcript, and follow new text", ACT_END_EMPTY},
	{IN_INPUT, "Left", "without a draft: the variant before: an earlier answer, or what was asked before", ACT_VARIANT_BACK},
	{IN_INPUT, "Right", "without a draft: the next variant", ACT_VARIANT},
	{IN_INPUT, "Ctrl-D", "without a draft: quit", ACT_QUIT_EMPTY},

	{OPEN_TEXTS, "PgUp, PgDn", "a page up, a page down", ACT_NONE},
	{OPEN_TEXTS, "Up, Down", "without a draft: a line up, a line down", ACT_NONE},
	{OPEN_TEXTS, "Home, End", "without a draft: to the beginning, to the end", ACT_NONE},
	{OPEN_TEXTS, "Esc", "unmark found words; then close", ACT_NONE},

	{IN_DOCUMENTS, "Left, Right", "without a draft: the document before, the next one", ACT_NONE},
	{IN_DOCUMENTS, "Tab", "without a draft: outline, headings or pages to jump to", ACT_NONE},

	{BROWSE_TEXTS, "k, Up", "a line up", ACT_UP},
	{BROWSE_TEXTS, "j, Down", "a line down", ACT_DOWN},
	{BROWSE_TEXTS, "u, Ctrl-U", "half a page up", ACT_HALF_UP},
	{BROWSE_TEXTS, "d, Ctrl-D", "half a page down", ACT_HALF_DOWN},
	{BROWSE_TEXTS, "b, PgUp, Ctrl-B", "a page up", ACT_PAGE_UP},
	{BROWSE_TEXTS, "f, Space, PgDn, Ctrl-F", "a page down", ACT_PAGE_DOWN},
	{BROWSE_TEXTS, "g, Home", "to the beginning", ACT_TOP},
	{BROWSE_TEXTS, "G, End", "to the end", ACT_END},
	{BROWSE_TEXTS, "/", "find words, downwards", ACT_FIND_DOWN},
	{BROWSE_TEXTS, "n", "the next match", ACT_AGAIN},
	{BROWSE_TEXTS, "N", "the match before", ACT_AGAIN_BACK},
	{BROWSE_TEXTS, "q", "close what is open; in the transcript, back to writing", ACT_LINE},
	{BROWSE_TEXTS, "Esc", "back to writing", ACT_NONE},
	{BROWSE_TEXTS, "other letters", "back to writing; the letter is written", ACT_NONE},

	{BROWSING | IN_TRANSCRIPT, "?", "find words, upwards", ACT_FIND_UP},
	{BROWSING | IN_TRANSCRIPT, "[", "to the question before", ACT_QUESTION_UP},
	{BROWSING | IN_TRANSCRIPT, "]", "to the next question", ACT_QUESTION_DOWN},
	{BROWSING | IN_TRANSCRIPT, "y", "copy the message, unformatted", ACT_COPY},
	{BROWSING | IN_TRANSCRIPT, "c", "copy the last block of code", ACT_COPY_CODE},
	{BROWSING | IN_TRANSCRIPT, "z", "fold the message to its first line, or unfold it, as a click does", ACT_FOLD},
	{BROWSING | IN_TRANSCRIPT, "m", "mark this place", ACT_MARK},
	{BROWSING | IN_TRANSCRIPT, "'", "jump to the mark, and back", ACT_JUMP},
	{BROWSING | IN_TRANSCRIPT, "i, Tab, Enter", "back to writing", ACT_LINE},

	{BROWSING | IN_DOCUMENTS, "?", "find words, upwards", ACT_NONE},
	{BROWSING | IN_DOCUMENTS, "o, Tab", "outline: headings or pages, to jump to", ACT_NONE},
	{BROWSING | IN_DOCUMENTS, "], Right", "the next document", ACT_NONE},
	{BROWSING | IN_DOCUMENTS, "[, Left", "the document before", ACT_NONE},
	{BROWSING | IN_DOCUMENTS, "40%, 12p, 7g", "go to that percent, page or line", ACT_NONE},

	{IN_SESSIONS, "letters", "filter the list", ACT_NONE},
	{IN_SESSIONS, "Up, Down", "select a session", ACT_NONE},
	{IN_SESSIONS, "Enter", "continue in that session", ACT_NONE},
	{IN_SESSIONS, "Tab", "preview its last messages", ACT_NONE},
	{IN_SESSIONS, "Ctrl-R", "rename it", ACT_NONE},
	{IN_SESSIONS, "Ctrl-F", "fork it: a copy with the same messages", ACT_NONE},
	{IN_SESSIONS, "Ctrl-D", "delete it; asks first", ACT_NONE},
	{IN_SESSIONS, "Ctrl-U", "for 10 seconds after that: undo it", ACT_NONE},
	{IN_SESSIONS, "/", "and words: sessions whose messages have them", ACT_NONE},

	{IN_PALETTE, "letters", "filter the list", ACT_NONE},
	{IN_PALETTE, "Up, Down", "choose", ACT_NONE},
	{IN_PALETTE, "Enter", "do it; what needs words, and a setting, becomes the draft", ACT_NONE},
	{IN_PALETTE, "Tab", "make the command the draft", ACT_NONE},

	{IN_CACHE, "Down, Up", "without a draft: the next layer, the layer before", ACT_NONE},
	{IN_CACHE, "PgDn, PgUp", "eight layers on, or back", ACT_NONE},
	{IN_CACHE, "Home, End", "without a draft: the first layer, the last one", ACT_NONE},
	{IN_CACHE, "Left, Right", "without a draft: the cursor to the left and right; the words there are shown", ACT_NONE},
	{IN_CACHE, "Tab", "without a draft: show or hide the legend", ACT_NONE},

	{BROWSING | IN_CACHE, "j, k", "the next layer, the layer before", ACT_NONE},
	{BROWSING | IN_CACHE, "Space", "eight layers on", ACT_NONE},
	{BROWSING | IN_CACHE, "g, G", "the first layer, the last one", ACT_NONE},
	{BROWSING | IN_CACHE, "+, -", "zoom in and out", ACT_NONE},
	{BROWSING | IN_CACHE, "h, l", "the cursor to the left and right", ACT_NONE},
	{BROWSING | IN_CACHE, "n, N", "the cursor to the next lower peak of the picked layer, the one before", ACT_NONE},
	{BROWSING | IN_CACHE, "c", "colours or characters", ACT_NONE},
	{BROWSING | IN_CACHE, "?", "show or hide the legend, also beside or below the transcript", ACT_NONE},

	{0},
};
/* clang-format on */
