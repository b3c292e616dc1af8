/* sessions/sessions.h - what app/ and ui/ may know about what is stored between runs.
 *
 *     documents   doc_read() turns a file of any format into text with marks, or refuses it with one sentence that names it
 *     store       sessions: chat.db (names, messages, documents, settings, search).  Small, precious, durable
 *     http        pages and parts of files from the web; answers of servers as they arrive
 *     snaps       snapshots of timelines: kv.db.  Large and disposable: without it sessions are prefilled again, no text is lost
 *
 * One directory (0700, files 0600) for any number of processes of one machine; a session is written by the one that holds it.  What is
 * opened belongs to one thread; another one may open a store of its own. */
#ifndef WEIR_SESSIONS_H
#define WEIR_SESSIONS_H

#include "engine/base.h"

struct timeline;
struct engine;

/* "SQLite 3.40.1, libarchive 3.6.2, ...": the libraries that this folder uses, as they run; appended. */
void sessions_libraries(struct str *out);

#define DOC_BYTES_MAX (64u << 20)   /* bytes of a document as read */

enum doc_type { DOC_TEXT, DOC_MARKDOWN, DOC_SOURCE, DOC_HTML, DOC_EPUB, DOC_DOCX, DOC_PDF, DOC_GZIP, DOC_ODF, DOC_RTF, DOC_TYPES };
extern const char *const doc_type_name[];   /* "text", "markdown", "source", "html", "epub", "docx", "pdf", "gzip", "odf", "rtf" */

enum mark_kind { MARK_PAGE, MARK_HEADING, MARK_PARAGRAPH, MARK_KINDS };
struct mark {
	enum mark_kind kind;
	int level;             /* of a heading: 1 to 6 */
	size_t at;             /* byte of the text where it begins; a page or section lasts until the next one */
	char *text;            /* label of a page ("12", "xii"), text of a heading; NULL for a paragraph */
	uint32_t last[MARK_KINDS];   /* for marks_at(): the number, from 1, of the last mark of each kind up to this one; zeros: not numbered yet */
};

/* The file that a document was read from, to notice later that it has changed. */
struct doc_origin {
	char *path;            /* absolute; NULL: it was no file, or is not known */
	int64_t size, mtime;   /* in bytes; in nanoseconds since 1970 */
	uint8_t hash[32];      /* SHA-256 of its bytes */
};

/* A document as plain UTF-8 text with \n line ends.  The text is data, never instructions, and hostile: it goes
 * to a tokenizer with special tokens off and to a terminal through clean_text(). */
struct doc {
	char *name;            /* last part of the path, "standard input" for "-": raw bytes, clean before showing */
	enum doc_type type;    /* never DOC_GZIP: that is unpacked; stored as this number */
	const char *encoding;  /* "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252", ... */
	uint64_t bytes;        /* as read */
	struct str text;
	struct mark *mark;     /* ascending by place */
	size_t n_mark;
	int32_t pages;         /* 0: a format without pages */
	struct str notices;    /* what the user should know, one sentence a line; empty when all is plain */
	struct doc_origin origin;
};

/* Read a regular file, standard input when path is "-" (a pipe, a socket or a redirected file), or an http(s) address.
 * -1: *out is empty and *e is ERR_DOCUMENT, or ERR_FIT when there is no memory for it. */
int  doc_read(const char *path_or_dash, struct doc *out, struct err *e);
/* The same for bytes in memory. */
int  doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e);
/* By its name and its first bytes: is it plain text, or source code or Markdown, which can be read piece by piece?  0: another format, which
 * doc_decode() needs whole. */
int  doc_is_plain(const char *name, const void *bytes, size_t n);
int  doc_is_address(const char *path);   /* "http://..." or "https://..." */
/* An address as it is fetched, with %20 for blanks, and as it is shown: without what stands behind "?" or "#", which may be secret.  -1: a document
 * cannot have this address, for example since it has a user name and a password; ERR_DOCUMENT.  Appended. */
int  doc_address(const char *said, struct str *url, struct str *shown, struct err *);
/* While documents are read, fetched or parsed, `stopped` is asked twenty times a second, in any thread: not 0 ends the import with
 * ERR_CANCELLED.  One for the process; NULL: imports run to their end. */
void doc_stop_when(int (*stopped)(void));
void doc_free(struct doc *);
/* The page or heading that a byte of the text belongs to; NULL: none. */
const struct mark *doc_mark_at(const struct doc *, enum mark_kind, size_t at);
const struct mark *marks_at(const struct mark *, size_t n, enum mark_kind, size_t at);
/* A copy of the pages and headings; paragraphs are left out, since blank lines of the text show them.  Returns their number. */
size_t marks_copy(const struct mark *, size_t n, struct mark **out);
void marks_free(struct mark *, size_t n);
/* The marks of a text that was stored without them, as far as the text shows them: form feeds, headings of Markdown and plain text. */
void doc_mark_again(struct doc *);

enum doc_change { DOC_SAME, DOC_CHANGED, DOC_GONE };
void origin_copy(struct doc_origin *to, const struct doc_origin *from);
void origin_free(struct doc_origin *);
/* Compares the file with what was read: by size and time, and by content where these differ.  A new time alone is noted in *o. */
enum doc_change doc_changed(struct doc_origin *o);

/* The documents that an argument names, in order: a file, "-" or an address is itself; a folder is the files below it by name, without
 * hidden ones, links, pictures and programs; a pattern with * ? [ that is no file's name is the files that match.  At most 1,000.
 * -1: *out is empty; ERR_DOCUMENT when there are none. */
struct doc_paths { char **path; size_t n; char *other; size_t n_other; };   /* files left out for their names: one of them, how many */
int  doc_find(const char *what, struct doc_paths *out, struct err *e);
void doc_paths_free(struct doc_paths *);

/* Documents that are no plain text, and model files, are parsed by a second process of this program in a jail.  main() begins with this call: it returns -1 in
 * an ordinary process; anything else is the exit code of the second process. */
int  doc_helper(int argc, char **argv);
/* Read a model file in the jail, before this process reads it: header, keys, tensors, vocabulary, template.  -1: its reader crashed or took too
 * much there, and *e says so (ERR_MODEL, ERR_CANCELLED).  0 otherwise: what the reader refuses it refuses again.  A file that was found good
 * is not read again while it stays the same; list: the file that notes this, or NULL; remember: write it, too. */
int  model_check(const char *path, const char *list, int remember, struct err *e);
/* What the jail consists of on this machine, as a list; -1: there is none, and *e says why. */
int  doc_jail(struct str *out, struct err *e);

/* ---- the store (store.c: opening; session_rows.c, sessions.c, names.c, messages.c, beginnings.c, settings.c, documents.c, outlines.c, library.c; search.c; export.c; check.c) ---- */

struct store;
struct store_options {
	const char *dir;         /* NULL: $XDG_DATA_HOME/weir, ~/.local/share/weir; made if missing */
	const char *vfs;         /* SQLite's VFS, for tests; NULL = the default */
	struct str *notice;      /* what the user should know, one sentence a line is added; NULL = nothing */
	/* Takes no lock, writes nothing, sees what is committed at once.  It does not see a store that is made later. */
	int read_only;
};
/* ERR_FAIL when an older weir or one on another machine has it (its process is named), when it cannot be opened, when it is damaged or
 * from a newer weir: nothing is changed then.  An older one is migrated, with a copy of the old file beside it. */
int  store_open(struct store **out, const struct store_options *, struct err *);
void store_close(struct store *);
const char *store_dir(const struct store *);
/* All that body() changes as one transaction; a change inside of another one is part of that.  When a search index turns out to be damaged
 * both are made anew and body() called once more: they hold nothing that is not in the messages and documents. */
typedef int store_body(struct store *, void *arg, struct err *);
int  store_change(struct store *, store_body *, void *arg, struct err *);

/* One row of the list; strings are the store's until the next call. */
struct session {
	int64_t id, head;               /* head: its last message; 0 = none yet */
	const char *name, *title;       /* name: unique, "" = none was given; title: from the first question */
	const char *model;              /* file name of the model used last */
	const char *kv;
	int64_t created, used;          /* seconds since 1970 */
	int32_t messages;               /* on the path to head */
	int32_t tokens;                 /* of its sequence when it was saved last */
	int64_t parent;                 /* the session it was forked from; 0 = none */
};
/* From now on this store alone writes the session: asked for before it is resumed, since functions that write do not ask.  -1 and ERR_FAIL
 * when another weir writes it: *by is that process, -1 = it is not known, 0 = another error. */
int  session_hold(struct store *, int64_t id, long *by, struct err *);
void session_leave(struct store *, int64_t id);
/* The process that holds it, -1 = it is not known; 0 = nobody, or this one. */
long session_writer(const struct store *, int64_t id);
int  session_new(struct store *, const char *name, int64_t *id, struct err *);          /* held; name NULL or "": none yet */
/* By name, else title, else number as `ls` prints it, else a beginning that fits one alone; ERR_USAGE names the nearest. */
int  session_find(struct store *, const char *what, int64_t *id, struct err *);
/* The one used last: 1, or 0 when there is none. */
int  session_last(struct store *, int64_t *id, struct err *);
int  session_get(struct store *, int64_t id, struct session *out, struct err *);
typedef int session_fn(const struct session *, void *ud);                                /* not 0 ends the list */
int  session_list(struct store *, session_fn *, void *ud, struct err *);                 /* the one used last first */
/* ERR_USAGE: taken, or no name; ERR_FAIL: another weir has it open. */
int  session_rename(struct store *, int64_t id, const char *name, struct err *);
/* 1 if it never had a message, also none that was undone, and has no document, nor has the session that it was forked from. */
int  session_is_empty(struct store *, int64_t id);
/* A second session with the same messages up to `at` (0: the head), held. */
int  session_fork(struct store *, int64_t id, int64_t at, const char *name, int64_t *new_id, struct err *);
/* For good: messages that no other session shows are overwritten on disk.  ERR_FAIL when another weir writes it. */
int  session_delete(struct store *, int64_t id, struct err *);
/* Values that a session stores by name: model, kv, system prompt, sampling, random state ...; value NULL: delete it. */
int  session_set(struct store *, int64_t id, const char *key, const void *value, size_t n, struct err *);
int  session_value(struct store *, int64_t id, const char *key, struct str *out, struct err *);   /* 1, 0 = not set, -1 */
/* All of them in order of their names; whole = 0: the value is damaged. */
typedef int setting_fn(const char *key, const void *value, size_t n, int whole, void *ud);
int  session_settings(struct store *, int64_t id, setting_fn *, void *ud, struct err *);
/* Used now, with that model, cache and number of tokens. */
int  session_touch(struct store *, int64_t id, const char *model, const char *kv, int32_t tokens, struct err *);

/* Messages are a tree: a question that is asked anew or edited begins another branch, the old one stays. */
struct stored_message {
	int64_t id, parent;             /* parent 0: the first */
	int role;                       /* enum chat_role */
	const char *text; size_t n_text;
	const int32_t *token; size_t n_token;   /* of an answer: as sampled */
	const char *stats;              /* JSON object, or "" */
	int64_t at;
	int complete;                   /* 0: the answer was cut by a crash or is being written */
};
/* Committed on return: the message is the session's head. */
int  message_append(struct store *, int64_t session, const struct stored_message *, int64_t *id, struct err *);
/* Replace text, tokens, stats and complete of an answer that is being written. */
int  message_update(struct store *, int64_t id, const struct stored_message *, struct err *);
/* Show another branch, or fewer messages (0: none). */
int  session_set_head(struct store *, int64_t session, int64_t message, struct err *);
/* From the first to message `to`. */
typedef int message_fn(const struct stored_message *, void *ud);
int  message_path(struct store *, int64_t to, message_fn *, void *ud, struct err *);
/* The branches after a message (0: the first messages of the session), the oldest first. */
int  message_children(struct store *, int64_t session, int64_t message, message_fn *, void *ud, struct err *);

/* The whole tree of a session. */
struct session_tree {
	int32_t shown, all;             /* messages on the path to the head; on all branches */
	int32_t branches;               /* messages without a child */
	int32_t cut;                    /* answers that were cut by a crash or are being written */
};
int  session_tree(struct store *, int64_t session, struct session_tree *, struct err *);

/* Documents: the text is stored once, however many sessions have it. */
struct stored_document {
	int64_t id;
	const char *name, *text; size_t n_text;
	uint64_t bytes;                 /* of the file that the text was read from */
	int64_t at;                     /* seconds since 1970 */
	int64_t after;                  /* the message that it follows; 0 = before the first */
	enum doc_type type;
	const struct mark *mark; size_t n_mark;   /* pages and headings are kept, paragraphs are not */
	const struct doc_origin *origin;          /* NULL: not known */
};
int  session_add_document(struct store *, int64_t session, const struct stored_document *, int64_t *id, struct err *);
int  session_drop_document(struct store *, int64_t session, int64_t id, struct err *);
typedef int document_fn(const struct stored_document *, void *ud);
int  session_documents(struct store *, int64_t session, document_fn *, void *ud, struct err *);   /* in order of adding */

/* The library (library.c): the texts that sessions have as documents, each once. */
struct library_text {
	int64_t id;
	const char *name;               /* of the newest document that has it */
	enum doc_type type;
	int32_t pages;                  /* 0: none */
	uint64_t bytes;                 /* of the text */
	int64_t at;                     /* when it was added last, seconds since 1970 */
	int32_t sessions;               /* that have it */
};
typedef int library_fn(const struct library_text *, void *ud);
int  library_list(struct store *, library_fn *, void *ud, struct err *);                 /* the newest first */
/* By name, else by number ("7", "#7"), else by a beginning that fits one alone; ERR_USAGE. */
int  library_find(struct store *, const char *what, int64_t *id, struct err *);
/* As it was imported; doc_free() it. */
int  library_get(struct store *, int64_t id, struct doc *out, struct err *);
typedef int library_session_fn(int64_t session, void *ud);
int  library_sessions(struct store *, int64_t id, library_session_fn *, void *ud, struct err *);
/* For good, out of all sessions that have it.  Their snapshots are the caller's to drop. */
int  library_remove(struct store *, int64_t id, struct err *);

/* Full text; words as typed, all must occur; "..." a phrase; the best first. */
struct found {
	int64_t session, message;
	const char *name, *title;       /* of the session */
	int role;
	const char *snippet;            /* \x01 and \x02 around the words that were found */
	int64_t at;
};
typedef int found_fn(const struct found *, void *ud);
int  store_search(struct store *, const char *words, int limit, found_fn *, void *ud, struct err *);

/* ---- passages (passages.c, passage_index.c, passage_search.c): which parts of texts answer a question ----
 *
 * Texts are cut into passages of about a paragraph and these into sentences, which a full text index in chat.db has.  A text is indexed once,
 * under its SHA-256; the index is deleted with the last document that has the text. */

struct passage_index;
/* The index in the store's chat.db; in memory where there is no store (NULL) or it is only read.  Close it before the store. */
int  passage_index_open(struct passage_index **out, struct store *, struct err *);
void passage_index_close(struct passage_index *);
/* Called often while a text is indexed, with the bytes of it that are.  Not 0 ends the search with ERR_CANCELLED, and the text is not indexed. */
typedef int indexing_fn(size_t done, size_t total, void *ud);
void passage_index_watch(struct passage_index *, indexing_fn *, void *ud);

struct indexed_text { const char *p; size_t n; };
struct found_passage {
	size_t text;                    /* number of the text */
	size_t from, to;                /* its bytes, without white space at the ends */
	size_t quote, quote_end;        /* the sentence in it that fits best */
	double score;                   /* what they are sorted by, from: */
	double passage, sentence;       /* bm25 of the passage; of the sentence */
	double covered;                 /* 0 .. 1: words of the question that the passage has, weighted by their idf */
};
/* Index the texts that are not yet, and find the passages of them that answer a question, the best first: how many (0 .. most), or -1. */
int  passages_find(struct passage_index *, const struct indexed_text *text, size_t n_text, const char *question, size_t n,
                   struct found_passage *out, size_t most, struct err *);

/* ---- sentences (sentence_search.c): which sentences of all texts in an index have words of a question ---- */

/* Bytes from .. to of a text; has: bit i = the sentence has word i of the question. */
struct found_sentence { int64_t text; size_t from, to; uint32_t words; uint64_t has; };
/* Index a text, once, and give its number in the index: above 0, and larger than that of texts that were indexed before it. */
int  sentences_add(struct passage_index *, const char *text, size_t n, int64_t *number, struct err *);
/* The sentences with any of the question's words, in the order of the index; free *out.  *words: bit i = word i is rare enough to be looked
 * for, whether or not it was found.  A search costs no more for a larger index. */
int  sentences_find(struct passage_index *, const char *question, size_t n, struct found_sentence **out, size_t *n_out, uint64_t *words,
                    struct err *);

enum export_format { EXPORT_MARKDOWN, EXPORT_JSON, EXPORT_TEXT };
/* What the program adds to a message from its stats, appended: JSON members, each with a comma before it, else lines. */
typedef void export_more_fn(int role, const char *stats, int json, struct str *out);
/* The branch shown, in order; more: may be NULL.  JSON: {"name","model","kv","settings":{KEY:TEXT},"documents":[{"name","type","bytes","after",
 * "text","marks"}],"messages":[{"role","text","tokens":[...],"at"}]}. */
int  session_export(struct store *, int64_t id, enum export_format, export_more_fn *more, struct str *out, struct err *);

/* Everything that can be checked; what is wrong as one sentence a line.  0, 1 = something is wrong, -1 = could not check. */
int  store_check(struct store *, struct str *report, struct err *);

/* ---- snapshots (snaps.c: chunks, heads, budget; fingerprint.c) ---- */

struct snaps;
struct snaps_options {
	uint64_t budget;         /* bytes of kv.db; 0 = 8 GiB or a tenth of the free disk, whatever is less */
	const char *vfs;
};
/* kv.db in the store's directory.  A damaged or foreign one is renamed and a new one begun: *notice says so (may be NULL).
 * Of a store that is only read kv.db is only read, too, beside a weir that writes; it is opened in a millisecond, so open
 * it anew for each list. */
int  snaps_open(struct snaps **out, struct store *, const struct snaps_options *, struct str *notice, struct err *);
void snaps_close(struct snaps *);

/* What a snapshot was computed with; computing it hashes the weights once per file (device, inode, size, time of change).
 * entries: of KV entries of prefilled tokens, which do not depend on the cache policy. */
struct fingerprint { uint8_t all[32], entries[32]; };
int  snaps_fingerprint(struct snaps *, const struct engine *, const struct timeline *, struct fingerprint *out, struct err *);

struct snap_saved { uint64_t bytes, new_bytes; int32_t tokens; double seconds; };
/* Save the timeline as it is under a message (the session's head).  Only chunks that are not there are written, then the head
 * is flipped.  extra: the caller's own bytes.  ERR_FIT: no room; the older snapshot stays. */
int  snap_save(struct snaps *, struct timeline *, const struct fingerprint *, int64_t session, int64_t message,
               const void *extra, size_t n_extra, struct snap_saved *, struct err *);
/* During the prefill of a long text: the chunks so far, without a head. */
int  snap_save_entries(struct snaps *, struct timeline *, const struct fingerprint *, struct snap_saved *, struct err *);

struct snap_loaded {
	int32_t tokens;
	uint64_t bytes;
	double seconds;
	char why[200];
	char by[64];                    /* other kernels that computed the KV entries, which are right to rounding; "" = ours */
};
/* Restore a timeline to that message: 1 and extra, or 0 and why not ("" = there is none).  A snapshot of these very
 * kernels goes before one that the same model and settings gave with others.  Nothing reaches the timeline before its checksum was
 * right. */
int  snap_load(struct snaps *, struct timeline *, const struct fingerprint *, int64_t message, struct str *extra,
               struct snap_loaded *, struct err *);
/* The longest beginning of want[0 .. n) whose chunks these kernels have computed and which is longer than what the timeline has:
 * tokens it can continue from; 0 = none. */
int32_t snap_load_prefix(struct snaps *, struct timeline *, const struct fingerprint *, const int32_t *want, size_t n,
                         struct snap_loaded *, struct err *);
/* Bytes that snapshots of a session hold, those shared included. */
int  snap_bytes(struct snaps *, int64_t session, uint64_t *out, struct err *);
/* The same for a list of sessions, in one go: of each its number and its head are given, and of the snapshots: */
struct snap_state {
	int64_t session, message;
	uint64_t bytes;                 /* as snap_bytes() */
	int ready;                      /* there is one of that message: it opens at once, if model and cache are what they were */
};
int  snap_states(struct snaps *, struct snap_state *, size_t n, struct err *);
/* One snapshot. */
struct snap_info {
	int64_t message;
	int32_t tokens;
	int64_t used;                   /* seconds since 1970 */
	uint64_t bytes;                 /* all that it needs */
	uint64_t own, shared;           /* of these: its head and last KV entries; chunks that other sessions need, too */
	int head;                       /* 1 = head and last KV entries are there and undamaged, 0 = not */
	int32_t chunks, bad;            /* bad: missing or damaged */
};
typedef int snap_fn(const struct snap_info *, void *ud);
/* The snapshots of a session, the newest first; every byte of them is read and verified. */
int  snap_list(struct snaps *, int64_t session, snap_fn *, void *ud, struct err *);
int  snap_drop(struct snaps *, int64_t session, struct err *);         /* all of a session; overwritten */
/* Delete chunks that no snapshot needs, and snapshots beyond the budget.  Bytes freed. */
int  snaps_gc(struct snaps *, uint64_t *freed, struct err *);
int  snaps_check(struct snaps *, struct str *report, struct err *);    /* reads and verifies every row; as store_check() */

/* ---- http and https (fetch/http.c) ---- */

struct http_reply {
	int status;            /* 200, 404, ...; 0: there was no answer */
	int64_t length;        /* bytes that follow, -1 = unknown */
	int64_t first, total;  /* Content-Range: the first byte that follows, bytes of the whole file; -1 = unknown */
	char type[128];        /* Content-Type, as it came; "" = it does not say */
	int encodings;         /* Content-Encoding: how many; more than one is refused, since a short answer could be endless work then */
	int retry_after;       /* seconds that the server asks to wait, 0 = it does not say */
	int broken;            /* after -1: the connection failed, and may succeed another time */
	int elsewhere;         /* another server has answered than the one that was asked, which had redirected to it */
	char next[1024];       /* the address of a list's next page (Link), or where a redirection leads (Location); "" = neither */
	/* What huggingface.co adds, "" or -1 where it is not there: why it refuses (X-Error-Code and -Message), and, with the redirection to a
	 * file's storage, the file's SHA-256 in base 16 and its size (X-Linked-Etag and -Size). */
	char code[32], message[160];
	char linked_sum[65];
	int64_t linked_size;
};
struct http_request {
	const char *url;
	const char *token;     /* sent to the host of url, if that is http_is_private(), and to no other one; NULL: none */
	int packed;            /* the answer may come compressed; its length is that of the compressed bytes then */
	int seconds;           /* after which all must be over; 0: no limit */
	int64_t first, last;   /* the bytes that are wanted; first -1: the whole file; last -1: to the end */
	/* Called with what follows a status of 200 or 206: begin() before the first byte (may be NULL), then bytes().  Not 0, with *e set, ends
	 * the transfer. */
	int (*begin)(const struct http_reply *, void *ud, struct err *);
	int (*bytes)(const void *p, size_t n, void *ud, struct err *);
	int (*stopped)(void);  /* asked while it waits: not 0 ends the transfer with ERR_CANCELLED; may be NULL */
	void *ud;
};
/* 0: the server has answered, whatever its status.  -1: there was no answer, or it was broken off or refused; *r says how far it came. */
int  http_get(const struct http_request *, struct http_reply *r, struct err *e);
/* Is the Content-Type this one, whatever its parameters? */
int  http_type_is(const struct http_reply *, const char *type);
/* Is there a user name in an address, and maybe a password?  Such an address is not repeated in messages. */
int  http_has_user(const char *url);
/* Is the host of an address this machine: 127.0.0.0/8, [::1] or "localhost"? */
int  http_is_here(const char *url);
/* Can nobody on the way read what is sent to an address: by encryption, or since it does not leave this machine? */
int  http_is_private(const char *url);

/* ---- answers that are read as they arrive (fetch/stream.c) ----
 *
 * A client is the connection to one server, which stays open between requests.  One request at a time, in one thread.  No redirection is
 * followed: the status says that there is one. */
enum { HTTP_HEAD_MOST = 64 << 10 };   /* bytes of all header lines */

struct http_client;
struct http_send {
	const char *url;
	const char *token;     /* NULL: none */
	const char *json;      /* the body of a POST; NULL: a GET */
	size_t n_json;
	int no_proxy;          /* the server is this machine: ask it and nobody else */
	int connect_s;         /* seconds to connect */
	double patience_s;     /* seconds until more must have come: http_patience() */
	int (*stopped)(void);  /* asked 25 times a second: not 0 ends the request with ERR_CANCELLED; may be NULL */
};
int  http_client_open(struct http_client **, struct err *);
void http_client_close(struct http_client *);
/* Send a request, and wait for the head of its answer: 0, with its status in *r; -1: *r says whether another try may succeed. */
int  http_ask(struct http_client *, const struct http_send *, struct http_reply *r, struct err *);
/* Wait for more of the answer's body, and append it: 1; 0: it has ended; -1: *broken (may be NULL): the connection failed. */
int  http_read(struct http_client *, struct str *out, int *broken, struct err *);
/* The server has so many seconds from now on; then the request fails. */
void http_patience(struct http_client *, double seconds);
/* The request is over: what was not read of its answer is not wanted. */
void http_end(struct http_client *);

/* SHA-256 of bytes that come one after the other (sums.c).  NULL: no memory. */
struct sum;
struct sum *sum_open(void);
void sum_add(struct sum *, const void *p, size_t n);
/* Those of base 16, and a zero.  The sum begins again. */
void sum_hex(struct sum *, char out[65]);
void sum_close(struct sum *);

#endif
