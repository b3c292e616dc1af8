/* ui/transcript/code.c - splits lines of program code into coloured tokens.
 *
 * One row of a table describes the comments, strings and keywords of a language. Block comments, some strings and tags
 * may continue on the next line; struct code stores which of them is open. */
#include "ui/transcript/code.h"
#include "engine/base/utf8.h"

#include "ui/screen/grid.h"

#include <string.h>

enum flag {
	TRIPLE = 1,        /* three quotes begin a string of several lines */
	BACKTICK = 2,      /* a backtick begins a string of several lines */
	CASELESS = 4,      /* keywords may be in upper or lower case */
	MARKUP = 8,        /* tags are coloured; all other text is plain */
	PREPROCESSOR = 16, /* # at the start of a line begins a preprocessor directive */
	/* ' begins a string only if the closing ' follows after one character ('a is a lifetime of Rust) */
	LIFETIMES = 32,
	/* shell syntax: strings may span lines, # begins a comment only after a blank, $ begins a variable */
	SHELL = 64,
	LONG_BRACKETS = 128, /* [[ ... ]] is a multi-line string */
	DOUBLED = 256,       /* a quote inside a string is written twice; a backslash is an ordinary character */
	DIFF = 512,          /* diff: the first character of a line colours the whole line */
};

enum in { IN_NOTHING, IN_COMMENT, IN_STRING, IN_TRIPLE, IN_BRACKETS, IN_TAG, IN_TAG_STRING, IN_LINE };

struct language {
	const char *names;        /* names of the language, with blanks around each */
	const char *line[2];      /* the strings that begin a comment up to the end of the line */
	const char *open, *close; /* begin and end of a multi-line comment */
	const char *quotes;
	unsigned flags;
	const char *const *keywords; /* a list that ends with NULL */
};

#define WORDS(...)                                                                                                     \
	(const char *const[])                                                                                          \
	{                                                                                                              \
		__VA_ARGS__, NULL                                                                                      \
	}

/* clang-format off */
static const struct language languages[] = {
	{ "", { NULL, NULL }, NULL, NULL, "", 0, NULL },
	{ " c h ", { "//" }, "/*", "*/", "\"'", PREPROCESSOR,
	  WORDS("auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
	        "false", "float", "for", "goto", "if", "inline", "int", "long", "NULL", "register", "restrict", "return", "short",
	        "signed", "sizeof", "static", "struct", "switch", "true", "typedef", "union", "unsigned", "void", "volatile", "while",
	        "size_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t") },
	{ " c++ cpp cc cxx hpp cuda cu ", { "//" }, "/*", "*/", "\"'", PREPROCESSOR,
	  WORDS("alignas", "alignof", "auto", "bool", "break", "case", "catch", "char", "class", "concept", "const", "consteval",
	        "constexpr", "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete", "do",
	        "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "final", "float", "for", "friend",
	        "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "nullptr", "operator", "override",
	        "private", "protected", "public", "register", "reinterpret_cast", "requires", "return", "short", "signed", "sizeof",
	        "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "throw", "true", "try", "typedef",
	        "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while") },
	{ " python py python3 ", { "#" }, NULL, NULL, "\"'", TRIPLE,
	  WORDS("and", "as", "assert", "async", "await", "break", "case", "class", "continue", "def", "del", "elif", "else", "except",
	        "False", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "match", "None", "nonlocal", "not",
	        "or", "pass", "raise", "return", "self", "True", "try", "while", "with", "yield") },
	{ " javascript js jsx mjs node typescript ts tsx ", { "//" }, "/*", "*/", "\"'`", BACKTICK,
	  WORDS("abstract", "any", "as", "async", "await", "boolean", "break", "case", "catch", "class", "const", "continue",
	        "debugger", "declare", "default", "delete", "do", "else", "enum", "export", "extends", "false", "finally", "for",
	        "from", "function", "if", "implements", "import", "in", "instanceof", "interface", "let", "new", "null", "number",
	        "of", "private", "protected", "public", "readonly", "return", "static", "string", "super", "switch", "this", "throw",
	        "true", "try", "type", "typeof", "undefined", "var", "void", "while", "with", "yield") },
	{ " go golang ", { "//" }, "/*", "*/", "\"'`", BACKTICK,
	  WORDS("any", "bool", "break", "byte", "case", "chan", "const", "continue", "default", "defer", "else", "error",
	        "fallthrough", "false", "float64", "for", "func", "go", "goto", "if", "import", "int", "interface", "map", "nil",
	        "package", "range", "return", "rune", "select", "string", "struct", "switch", "true", "type", "uint", "var") },
	{ " rust rs ", { "//" }, "/*", "*/", "\"'", LIFETIMES,
	  WORDS("as", "async", "await", "bool", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false", "fn",
	        "for", "i32", "i64", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self",
	        "Self", "static", "str", "struct", "super", "trait", "true", "type", "u32", "u64", "u8", "unsafe", "use", "usize",
	        "where", "while") },
	{ " java kotlin kt scala cs csharp c# swift dart ", { "//" }, "/*", "*/", "\"'", TRIPLE,
	  WORDS("abstract", "as", "async", "await", "boolean", "bool", "break", "byte", "case", "catch", "char", "class", "const",
	        "continue", "data", "default", "do", "double", "else", "enum", "extends", "false", "final", "finally", "float", "for",
	        "foreach", "fun", "func", "guard", "if", "implements", "import", "in", "init", "instanceof", "int", "interface",
	        "internal", "is", "let", "long", "namespace", "new", "nil", "null", "object", "override", "package", "private",
	        "protected", "protocol", "public", "record", "return", "sealed", "self", "short", "static", "string", "struct",
	        "super", "switch", "synchronized", "this", "throw", "throws", "true", "try", "using", "val", "var", "virtual", "void",
	        "volatile", "when", "where", "while", "yield") },
	{ " sh bash shell zsh console terminal shellsession ", { "#" }, NULL, NULL, "\"'", SHELL,
	  WORDS("alias", "break", "case", "cd", "continue", "declare", "do", "done", "echo", "elif", "else", "esac", "eval", "exec",
	        "exit", "export", "fi", "for", "function", "if", "in", "local", "printf", "read", "readonly", "return", "set",
	        "shift", "source", "sudo", "test", "then", "trap", "unset", "until", "while") },
	{ " sql sqlite mysql postgresql psql ", { "--" }, "/*", "*/", "'\"", CASELESS | DOUBLED,
	  WORDS("add", "all", "alter", "and", "as", "asc", "begin", "between", "by", "case", "commit", "constraint", "create", "cross",
	        "default", "delete", "desc", "distinct", "drop", "else", "end", "exists", "foreign", "from", "full", "group",
	        "having", "in", "index", "inner", "insert", "integer", "into", "is", "join", "key", "left", "like", "limit", "not",
	        "null", "offset", "on", "or", "order", "outer", "primary", "references", "returning", "right", "rollback", "select",
	        "set", "table", "text", "then", "transaction", "union", "unique", "update", "using", "values", "varchar", "view",
	        "when", "where", "with") },
	{ " json json5 jsonc jsonl ", { "//" }, "/*", "*/", "\"", 0, WORDS("true", "false", "null") },
	{ " html xml xhtml svg vue ", { NULL, NULL }, "<!--", "-->", "", MARKUP, NULL },
	{ " ruby rb ", { "#" }, NULL, NULL, "\"'", 0,
	  WORDS("alias", "and", "begin", "break", "case", "class", "def", "defined", "do", "else", "elsif", "end", "ensure", "extend",
	        "false", "for", "if", "in", "include", "lambda", "module", "next", "nil", "not", "or", "private", "proc", "puts",
	        "raise", "redo", "require", "rescue", "retry", "return", "self", "super", "then", "true", "undef", "unless", "until",
	        "when", "while", "yield") },
	{ " lua ", { "--" }, "--[[", "]]", "\"'", LONG_BRACKETS,
	  WORDS("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil", "not",
	        "or", "repeat", "return", "then", "true", "until", "while") },
	{ " php ", { "//", "#" }, "/*", "*/", "\"'", SHELL,
	  WORDS("abstract", "array", "as", "break", "case", "catch", "class", "const", "continue", "default", "do", "echo", "else",
	        "elseif", "extends", "false", "final", "finally", "fn", "for", "foreach", "function", "if", "implements",
	        "interface", "match", "namespace", "new", "null", "private", "protected", "public", "return", "static", "switch",
	        "this", "throw", "true", "try", "use", "while") },
	{ " css scss less ", { "//" }, "/*", "*/", "\"'", 0, NULL },
	{ " yaml yml toml ini conf make makefile dockerfile cmake properties ", { "#" }, NULL, NULL, "\"'", 0,
	  WORDS("true", "false", "null", "yes", "no", "on", "off", "ifeq", "ifneq", "ifdef", "else", "endif", "include", "FROM", "RUN",
	        "COPY", "WORKDIR", "ENV", "CMD", "ENTRYPOINT", "EXPOSE") },
	{ " diff patch ", { NULL, NULL }, NULL, NULL, "", DIFF, NULL },
};
/* clang-format on */

void code_start(struct code *c, const char *name, size_t n)
{
	char key[24];
	size_t k = 0;

	*c = (struct code){ 0 };
	while (n && *name == ' ')
		name++, n--;
	key[k++] = ' ';
	for (size_t i = 0; i < n && !strchr(" ,:;{", name[i]); i++) {
		if (k + 2 >= sizeof key)
			return;
		key[k++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
	}
	if (k == 1)
		return;
	key[k++] = ' ';
	key[k] = 0;
	for (size_t i = 1; i < LEN(languages); i++)
		if (strstr(languages[i].names, key))
			c->lang = (uint8_t)i;
}

/* 1 if the byte may be part of a name; any byte beyond ASCII may be. */
static int is_name(char ch)
{
	return byte_is_word(ch) || ch == '_';
}

static int starts_with(const char *s, size_t n, const char *with)
{
	size_t k = with ? strlen(with) : 0;

	return k && n >= k && !memcmp(s, with, k);
}

static int is_keyword(const struct language *l, const char *s, size_t n)
{
	for (const char *const *w = l->keywords; w && *w; w++) {
		const char *k = *w;
		size_t i = 0;
		if (!(l->flags & CASELESS) && *k != *s)
			continue;
		while (i < n && k[i] && (k[i] == s[i] || ((l->flags & CASELESS) && k[i] == (s[i] | 32))))
			i++;
		if (i == n && !k[i])
			return 1;
	}
	return 0;
}

/* Return the end of a token that may span lines: the offset after `close`, or the end of the line. Unless `close` was
 * found, the token stays open. */
static size_t token_end(struct code *c, const char *line, size_t n, size_t at, const char *close)
{
	const char *p = memmem(line + at, n - at, close, strlen(close));

	if (!p)
		return n;
	c->in = IN_NOTHING;
	return (size_t)(p - line) + strlen(close);
}

/* Return the end of a string whose text begins at `at`, or the end of the line. */
static size_t string_end(struct code *c, const struct language *l, const char *line, size_t n, size_t at)
{
	while (at < n) {
		if (line[at] == '\\' && !(l->flags & DOUBLED) && !((l->flags & SHELL) && c->quote == '\'')) {
			at += at + 1 < n ? 2 : 1;
			continue;
		}
		if (line[at] == c->quote) {
			c->in = IN_NOTHING;
			return at + 1;
		}
		at++;
	}
	return n;
}

/* 1 if the quote at s begins a character such as 'a' or '\n'; 0 if it begins a lifetime of Rust, as in &'a str. */
static int closed_at_once(const char *s, size_t n)
{
	size_t k = 2;

	if (n > 1 && s[1] == '\\')
		return 1;
	while (k < n && k < 6 && (unsigned char)s[k] >= 0x80)
		k++;
	return k < n && s[k] == '\'';
}

static size_t markup_token(struct code *c, const char *line, size_t n, size_t at, unsigned *style)
{
	size_t i = at;

	if (c->in == IN_NOTHING) {
		if (line[i] == '<' && i + 1 < n && (is_name(line[i + 1]) || strchr("/!?", line[i + 1]))) {
			c->in = IN_TAG;
			*style = ST_CODE_KEYWORD;
			for (i++; i < n && (is_name(line[i]) || strchr("/!?:-", line[i])); i++)
				;
			return i;
		}
		for (i++; i < n && line[i] != '<'; i++)
			;
		return i;
	}
	if (line[i] == '"' || line[i] == '\'') {
		c->in = IN_TAG_STRING;
		c->quote = line[i];
		i++;
	}
	if (c->in == IN_TAG_STRING) {
		*style = ST_CODE_STRING;
		for (; i < n && line[i] != c->quote; i++)
			;
		if (i < n)
			c->in = IN_TAG, i++;
		return i;
	}
	if (line[i] == '>' || line[i] == '/' || line[i] == '?') {
		*style = ST_CODE_KEYWORD;
		if (line[i] == '>')
			c->in = IN_NOTHING;
		return i + 1;
	}
	for (i++; i < n && !strchr(">/?\"'", line[i]); i++)
		;
	return i;
}

static size_t open_string(struct code *c, const struct language *l, const char *line, size_t n, size_t at)
{
	char q = line[at];
	char three[4] = { q, q, q, 0 };

	c->quote = q;
	if ((l->flags & TRIPLE) && starts_with(line + at, n - at, three)) {
		c->in = IN_TRIPLE;
		return token_end(c, line, n, at + 3, three);
	}
	c->in = IN_STRING;
	return string_end(c, l, line, n, at + 1);
}

/* Go on with a comment or string that began before `at`. Return `at` if nothing is open. */
static size_t open_token(struct code *c, const struct language *l, const char *line, size_t n, size_t at,
                         unsigned *style)
{
	*style = c->in == IN_COMMENT ? ST_CODE_COMMENT : ST_CODE_STRING;
	switch (c->in) {
	case IN_COMMENT: return token_end(c, line, n, at, l->close);
	case IN_STRING: return string_end(c, l, line, n, at);
	case IN_TRIPLE: return token_end(c, line, n, at, c->quote == '"' ? "\"\"\"" : "'''");
	case IN_BRACKETS: return token_end(c, line, n, at, "]]");
	default: *style = ST_CODE; return at;
	}
}

/* 1 if a comment that ends with the line begins at `at`. */
static int is_line_comment(const struct language *l, const char *line, size_t n, size_t at)
{
	for (int k = 0; k < 2; k++)
		if (starts_with(line + at, n - at, l->line[k]) &&
		    !((l->flags & SHELL) && line[at] == '#' && at && line[at - 1] != ' ' && line[at - 1] != ';'))
			return 1;
	return 0;
}

/* Take a directive of the preprocessor: '#', blanks, a name. */
static size_t directive_token(const char *line, size_t n, size_t at)
{
	for (at++; at < n && line[at] == ' '; at++)
		;
	for (; at < n && is_name(line[at]); at++)
		;
	return at;
}

/* Take a number, a variable of a shell, a name, or one other character. */
static size_t word_token(const struct language *l, const char *line, size_t n, size_t at, unsigned *style)
{
	size_t i = at;

	if (byte_is_digit(line[at])) {
		*style = ST_CODE_NUMBER;
		while (i < n && (is_name(line[i]) || (line[i] == '.' && i + 1 < n && byte_is_digit(line[i + 1]))))
			i++;
		return i;
	}
	if ((l->flags & SHELL) && line[at] == '$') {
		*style = ST_CODE_NUMBER;
		for (i++; i < n && (is_name(line[i]) || (i == at + 1 && strchr("{#?@*", line[i]))); i++)
			;
		return i;
	}
	while (i < n && is_name(line[i]))
		i++;
	if (i == at)
		return at + 1;
	if (is_keyword(l, line + at, i - at))
		*style = ST_CODE_KEYWORD;
	return i;
}

size_t code_token(struct code *c, const char *line, size_t n, size_t at, unsigned *style)
{
	const struct language *l = &languages[c->lang];
	const char *s = line + at;
	size_t left = n - at, end;

	*style = ST_CODE;
	if (!c->lang)
		return n;
	if ((end = open_token(c, l, line, n, at, style)) > at)
		return end;
	if (l->flags & DIFF) {
		*style = *s == '+'   ? ST_CODE_STRING
		         : *s == '-' ? ST_CODE_COMMENT
		         : *s == '@' ? ST_CODE_KEYWORD
		                     : ST_CODE;
		return n;
	}
	if ((c->in == IN_NOTHING || c->in == IN_LINE) && starts_with(s, left, l->open)) {
		*style = ST_CODE_COMMENT;
		c->in = IN_COMMENT;
		return token_end(c, line, n, at + strlen(l->open), l->close);
	}
	if (l->flags & MARKUP)
		return markup_token(c, line, n, at, style);
	if (is_line_comment(l, line, n, at)) {
		*style = ST_CODE_COMMENT;
		return n;
	}
	if ((l->flags & PREPROCESSOR) && *s == '#' && c->in != IN_LINE) {
		*style = ST_CODE_KEYWORD;
		c->in = IN_LINE;
		return directive_token(line, n, at);
	}
	if (*s == ' ') {
		for (end = at; end < n && line[end] == ' '; end++)
			;
		return end;
	}
	if (l->flags & PREPROCESSOR)
		c->in = IN_LINE; /* a '#' later in this line begins no directive */
	if ((l->flags & LONG_BRACKETS) && starts_with(s, left, "[[")) {
		*style = ST_CODE_STRING;
		c->in = IN_BRACKETS;
		return token_end(c, line, n, at + 2, "]]");
	}
	if (strchr(l->quotes, *s) && !((l->flags & LIFETIMES) && *s == '\'' && !closed_at_once(s, left))) {
		*style = ST_CODE_STRING;
		return open_string(c, l, line, n, at);
	}
	return word_token(l, line, n, at, style);
}

void code_newline(struct code *c)
{
	unsigned flags = languages[c->lang].flags;

	if (c->in == IN_LINE || (c->in == IN_STRING && !(flags & SHELL) && !((flags & BACKTICK) && c->quote == '`')))
		c->in = IN_NOTHING;
}
