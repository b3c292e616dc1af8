/* engine/jinja/jinja_private.h (private to engine/jinja/) - interfaces between the files of the interpreter.
 *
 * Files: jinja.c (compile and run), jinja_work.c (memory, bounds, failure, names), jinja_lex.c (from text to tokens),
 * jinja_parse.c and jinja_expr.c (from tokens to a tree: statements, expressions), jinja_value.c (values: truth,
 * order, printing, containers), jinja_text.c (strings), jinja_access.c (attributes, items, arguments of calls),
 * jinja_run.c (runs statements), jinja_eval.c (evaluates expressions), jinja_filters.c, jinja_tests.c and
 * jinja_methods.c (filters, tests, methods and global functions). */
#ifndef WEIR_JINJA_PRIVATE_H
#define WEIR_JINJA_PRIVATE_H

#include <setjmp.h>
#include <stdint.h>

#include "engine/jinja/jinja.h"

/* ---- memory and failure (jinja_work.c) ---- */

/* The state of one compilation or run: memory, counters and error. A function that fails does not return: it calls
 * jinja_fail(), which jumps (longjmp) back to compile() or run_chat(). All memory is freed together at the end. */
struct work {
	struct chunk *chunk; /* newest chunk of memory */
	size_t used, cap;    /* bytes in use, limit of bytes */
	int line;            /* line of the template that is parsed or run now, for errors */
	uint64_t steps;      /* operations so far */
	int depth;           /* current nesting */
	jmp_buf back;        /* where jinja_fail() jumps */
	struct err *err;     /* where jinja_fail() writes */
};
void *work_alloc(struct work *, size_t n); /* return n zeroed bytes; fail if the limit is exceeded */
void *work_array(struct work *, size_t n, size_t size);
/* Make room for one more element in v, which has n elements. Return v, or a larger copy of it. */
void *work_grow(struct work *, void *v, size_t n, size_t *cap, size_t size);
char *work_copy(struct work *, const char *p, size_t n); /* NUL-terminated */
void work_free(struct work *);
/* Add to the number of steps; fail if it exceeds JINJA_STEPS_MAX. */
void work_spend(struct work *, size_t steps);
/* Fail with ERR_MODEL, the line and this sentence. */
_Noreturn void jinja_fail(struct work *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Enter one level of nesting, until work_leave(). Fail if there are more than JINJA_DEPTH_MAX levels. */
void work_enter(struct work *);
void work_leave(struct work *);

/* ---- values ---- */

enum kind {
	V_UNDEFINED,
	V_NONE,
	V_BOOL,
	V_INT,
	V_REAL,
	V_TEXT,
	V_LIST,
	V_TUPLE,
	V_DICT,
	V_NAMESPACE,
	V_LOOP,
	V_MACRO,
	V_METHOD,
	V_FUNCTION
};
struct value {
	enum kind kind;
	union {
		const char *hint; /* V_UNDEFINED: the reason, "'x' is undefined"; NULL = unknown */
		int64_t i;        /* V_BOOL, V_INT */
		double real;
		const struct text *text;
		const struct list *list; /* V_LIST, V_TUPLE */
		struct dict *dict;       /* V_DICT, V_NAMESPACE */
		struct loop *loop;
		const struct macro *macro;
		const struct method *method;
		const struct function *function;
	};
};
/* An immutable string: pieces in order. Strings may share an array of pieces. So a + b is fast: if a's pieces are the
 * last ones in their array, b's pieces are appended there, and a is not copied. */
struct text {
	const struct jinja_piece *v;
	size_t n_piece;
	size_t n;               /* bytes */
	const char *flat;       /* all bytes as one array; NULL until text_flat() makes it */
	struct pieces *grow;    /* the shared array that v is in; NULL = v is not shared */
	struct jinja_piece one; /* memory of v if there is only one piece */
};
struct pieces {
	struct jinja_piece *v;
	size_t n, cap, bytes;
};
struct list {
	struct value *v;
	size_t n, cap;
};
struct entry {
	struct value key, value;
};
struct dict {
	struct entry *v;
	size_t n, cap;
};
/* A method and the value on which it is called. */
struct method {
	struct value self;
	const char *name;
};

/* Arguments of a call: v[n] by position; named[n_named] by name, with their names in name[]. */
struct call {
	struct value *v;
	size_t n;
	const char **name;
	struct value *named;
	size_t n_named;
};

/* ---- strings (jinja_text.c); int32_t from: an origin; size_t from: an offset in bytes ---- */

/* Return p[0..n) as a string. The bytes are not copied. */
struct value text_value(struct work *, const char *p, size_t n, int32_t from);
/* Do what text_value() does, with the origin JINJA_TEMPLATE. */
struct value text_word(struct work *, const char *zero_terminated);
/* Turn the pieces into a string, which uses their array from then on. */
struct value text_pieces(struct work *, struct pieces *);
void pieces_add(struct work *, struct pieces *, const char *p, size_t n, int32_t from);
/* Append n bytes of a string, starting at byte `from`. */
void pieces_text(struct work *, struct pieces *, const struct text *, size_t from, size_t n);
/* Return all bytes of a string as one array, not NUL-terminated. */
const char *text_flat(struct work *, struct value);
struct value text_cat(struct work *, struct value a, struct value b);
/* Return n bytes of a string, starting at byte `from`. */
struct value text_sub(struct work *, struct value, size_t from, size_t n);
size_t text_length(struct work *, struct value);                 /* number of characters */
size_t text_byte(struct work *, struct value, size_t character); /* return the byte at which the character begins */
/* Remove characters at the ends. sides: 1 left, 2 right, 3 both. chars: a string of the characters to remove; V_NONE
 * means white space. */
struct value text_strip(struct work *, struct value, int sides, struct value chars);
/* Return the offset of the first `sub` at or after byte `from`, or SIZE_MAX if there is none. */
size_t text_find(struct work *, struct value, struct value sub, size_t from);
/* Replace the first `most` occurrences of `old`, or all if most < 0. */
struct value text_replace(struct work *, struct value, struct value old, struct value new, int64_t most);
/* Change the case of ASCII letters. how: 'u' upper, 'l' lower, 'c' capitalize, 't' the method title(), 'T' the filter
 * title. */
struct value text_case(struct work *, struct value, char how);
/* 1 if the string contains ASCII letters and text_case(how) would not change it. */
int text_cased(struct work *, struct value, char how);
/* 1 if the value is a string equal to word. */
int text_is(struct work *, struct value, const char *word);
/* Return a NUL-terminated copy. */
char *text_zero(struct work *, struct value);
/* Return the length of the white space character at the start of p[0..n), as Python defines white space; 0 if there
 * is none. */
size_t blank_at(const char *p, size_t n);
/* 1 if c is ASCII white space as Python defines it: \t, \n, \v, \f, \r, space, or one of the separators 0x1c to
 * 0x1f. */
static inline int byte_is_python_blank(char c)
{
	return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
}

/* ---- other values (jinja_value.c) ---- */

struct value v_bool(int), v_int(int64_t), v_real(double), v_none(void), v_undefined(const char *hint);
struct value v_list(struct work *, enum kind, size_t cap); /* return an empty list with room for cap values */
void list_add(struct work *, struct value list, struct value);
struct value v_dict(struct work *, enum kind);                                 /* empty */
struct value *dict_find(struct work *, const struct dict *, struct value key); /* NULL = no such key */
void dict_set(struct work *, struct dict *, struct value key, struct value);
struct value dict_items(struct work *, const struct dict *); /* return a list of (key, value) tuples */
const char *kind_name(struct value);                         /* return Python's name of the type */
int value_truth(struct value);
int is_number(struct value);
double as_number(struct value);
int values_equal(struct work *, struct value, struct value);
/* Return < 0, 0 or > 0. Fail if the two values have no order. */
int values_compare(struct work *, struct value, struct value);
/* 1 if the container, a string, dictionary or sequence, contains the value: as a substring, key or element. */
int value_contains(struct work *, struct value container, struct value);
/* Return str(value). */
struct value value_printed(struct work *, struct value);
/* Return Python's json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii, sort_keys=sort). V_NONE:
 * the default of indent or separators. */
struct value as_json(struct work *, struct value, struct value indent, struct value separators, int ascii, int sort);
/* Return a list of what a loop over the value visits: elements, keys or characters. Undefined counts as empty. Fail
 * if the value cannot be iterated. */
struct value value_sequence(struct work *, struct value);
/* Sort v[n] by key[n], in place and stable. */
void sort_values(struct work *, struct value *v, const struct value *key, size_t n, int reverse);

/* ---- the tree ---- */

/* Kinds of nodes, with the members of struct node that each has. NULL where a part is missing. */
enum op {
	/* expressions */
	E_CONST,
	E_NAME,    /* name */
	E_LIST,    /* kid: elements */
	E_TUPLE,   /* kid: elements */
	E_DICT,    /* kid: key, value, key, ... */
	E_ATTR,    /* a: object; name: attribute */
	E_ITEM,    /* a: object; b: index */
	E_SLICE,   /* a: object; kid: from, to, step (NULL: none) */
	E_CALL,    /* a: function; args */
	E_FILTER,  /* a: operand (NULL: the block's text); name; args */
	E_TEST,    /* a: operand; name; args */
	E_NOT,     /* a: operand */
	E_NEG,     /* a: operand */
	E_POS,     /* a: operand */
	E_AND,     /* kid: operands */
	E_OR,      /* kid: operands */
	E_COMPARE, /* a: operand 0; kid[i]: operand i + 1; relation[i] compares operands i and i + 1 */
	E_ADD,     /* kid: operands */
	E_SUB,     /* kid: operands */
	E_MUL,     /* a, b: operands; the same for E_DIV to E_POW */
	E_DIV,
	E_FLOOR,
	E_MOD,
	E_POW,
	E_CONCAT, /* kid: elements */
	E_IF,     /* a: condition; b: then; c: else or NULL */
	/* statements */
	S_TEXT,
	S_PRINT,     /* a: expression */
	S_IF,        /* kid: condition, body, condition, body, ..., and the else body if there is one */
	S_FOR,       /* a: target; b: list; c: body; kid: condition after `if`, body after `else` */
	S_SET,       /* a: target; b: value */
	S_SET_BLOCK, /* a: target; b: filter or NULL; c: body */
	S_MACRO,     /* name; kid: parameters; args: defaults; c: body */
	S_CALL,      /* a: call; kid: parameters; args: defaults; c: body */
	S_FILTER,    /* a: filter; c: body */
	S_WITH,      /* kid: target, value, ...; c: body */
	S_SCOPE,     /* c: body */
	S_BREAK,
	S_CONTINUE,
	S_BODY, /* kid: statements */
};
enum relation { R_EQ, R_NE, R_LT, R_LE, R_GT, R_GE, R_IN, R_NOT_IN };

/* Arguments of a call, as expressions: v[n] by position; named[n_named] by name, with their names in name[]. */
struct args {
	struct node **v;
	size_t n;
	const char **name;
	struct node **named;
	size_t n_named;
	struct node *star, *stars; /* the arguments *list and **dict of the call; NULL = none */
};
/* Node of the tree. enum op says what a, b, c, kid, name and args mean for each kind of node. */
struct node {
	enum op op;
	int line;   /* line of the template */
	int height; /* nesting of expressions below this node */
	struct node *a, *b, *c;
	struct node **kid;
	size_t n_kid;
	const char *name;   /* interned (jinja_intern()): equal names have equal pointers */
	struct value value; /* E_CONST, S_TEXT */
	struct args *args;
	enum relation *relation;
	int recursive;
};

/* A compiled template. */
struct jinja {
	struct work work;
	struct node *body;
	const char **hash; /* hash table of the names in the template, open addressing */
	size_t hash_n;     /* number of entries of that table, a power of 2 */
	size_t n_name;     /* number of names in that table */
};
/* Return the pointer for a name. Equal names have the same pointer. If the name is new, jinja_intern() adds it, and
 * jinja_name() returns NULL. */
const char *jinja_intern(struct jinja *, const char *p, size_t n);
const char *jinja_name(const struct jinja *, const char *name);

/* ---- parsing ---- */

/* T_TEXT is the text between tags. T_PRINT and T_PRINT_END are "{{" and "}}", T_BLOCK and T_BLOCK_END "{%" and "%}".
 * T_MARK is an operator, a bracket or another mark inside a tag. */
enum token_kind { T_END, T_TEXT, T_PRINT, T_PRINT_END, T_BLOCK, T_BLOCK_END, T_NAME, T_STRING, T_INT, T_REAL, T_MARK };
struct token {
	enum token_kind kind;
	int line;
	const char *p;
	size_t n;    /* length of p in T_TEXT, T_NAME, T_STRING (escapes decoded) and T_MARK */
	int64_t i;   /* T_INT */
	double real; /* T_REAL */
};
struct lexed {
	struct token *v;
	size_t n, cap;
};
void jinja_lex(struct work *, const char *text, size_t n, struct lexed *out);

struct parser {
	struct jinja *t;
	struct work *w;
	const struct token *at; /* next token */
	int loops;              /* loops around this statement, inside the same macro */
};
struct node *node_new(struct parser *, enum op, struct node *a, struct node *b, struct node *c);
void node_add(struct parser *, struct node *, size_t *cap, struct node *kid);
int token_is(const struct token *, const char *mark_or_name);
int token_skip(struct parser *, const char *mark_or_name); /* if the next token is this one, consume it and return 1 */
void token_expect(struct parser *, const char *mark_or_name); /* consume the token, or fail */
const char *token_name(struct parser *);                      /* consume a name and return it, interned */
/* Parse an expression; with_if: `x if y else z` is allowed. */
struct node *parse_expression(struct parser *, int with_if);
/* Parse an expression or a tuple without brackets: a, b, c. */
struct node *parse_tuple(struct parser *, int with_if);
/* Parse the target of an assignment by {% set %}, {% for %} or {% with %}. */
struct node *parse_target(struct parser *, int with_attribute);
/* Parse filters after "|": "name|name(...)". operand = NULL: the filters belong to a {% filter %} or {% set %}
 * block. */
struct node *parse_filters(struct parser *, struct node *operand);
/* Parse the arguments of a call up to and including ")". The "(" has been read. */
struct args *parse_args(struct parser *);
/* Parse what may directly follow an operand: .name, [index], (arguments). */
struct node *parse_postfix(struct parser *, struct node *);
struct node *parse_template(struct parser *);

/* ---- running ---- */

struct variable {
	const char *name;
	struct value value;
};
/* The variables v[n] of one scope. Names that are not in it are looked up in `parent`. */
struct scope {
	const struct scope *parent;
	struct variable *v;
	size_t n, cap;
};
struct macro {
	const struct node *node;
	struct scope *scope; /* scope that the macro was defined in */
};
struct loop {
	const struct node *node;
	struct scope *scope;   /* scope around the loop */
	struct value *v;       /* values to visit */
	size_t n, at;          /* number of values, index of the current one */
	int depth;             /* levels of recursion */
	struct value *changed; /* arguments of the last loop.changed() */
	size_t n_changed;      /* elements of `changed`, if that is not NULL */
};
struct run {
	struct work w;
	const struct jinja *t;
	struct scope *scope, root; /* current and outermost scope */
	struct pieces *out;        /* where output is captured; NULL = call write() */
	size_t bytes, bytes_max;   /* bytes written or captured so far, and their limit */
	void (*write)(void *, const struct jinja_piece *);
	void *ud;
};
struct value run_eval(struct run *, const struct node *);
struct value call_value(struct run *, struct value f, struct call *);
/* Set a variable in this scope. name is interned. */
void scope_set(struct run *, struct scope *, const char *name, struct value);
/* Evaluate the arguments of a call into *call. */
void run_call(struct run *, const struct args *, struct call *);
void run_print(struct run *, struct value);
/* Run a body and return its output as a string. */
struct value run_capture(struct run *, const struct node *body);
struct value run_macro(struct run *, const struct macro *, struct call *);
/* Run the recursive loop again over `list`, for the call loop(list) in its body. Return the output as a string. */
struct value run_loop(struct run *, struct loop *, struct value list);
/* Run statements up to the end, or to {% break %} or {% continue %}. Return which of the three ended them
 * (jinja_run.c). */
int run_body(struct run *, const struct node *body);
void run_assign(struct run *, const struct node *target, struct value);

/* ---- attributes, items, arguments (jinja_access.c) ---- */

struct value get_attr(struct run *, struct value, const char *name);
struct value get_item(struct run *, struct value, struct value index);
/* Return an undefined value with a formatted hint. */
struct value undefined_because(struct run *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fail if the value is undefined. Undefined values can only be tested, printed and iterated. */
void must_be_defined(struct run *, struct value);
/* Return positional argument `at`, else the argument with this name (may be NULL), else `other`. */
struct value call_arg(const struct call *, size_t at, const char *name, struct value other);
/* Do what call_arg() does, for an integer or a bool. None means `other`. Fail for other kinds of values. */
int64_t call_int(struct work *, const struct call *, size_t at, const char *name, int64_t other);

/* ---- filters, tests, methods, functions by name ---- */

struct value filter_apply(struct run *, const char *name, struct value, struct call *);
int filter_known(const char *name);
int test_apply(struct run *, const char *name, struct value, struct call *);
/* Return the name of the value's method as a static string, or NULL if it has no such method. */
const char *method_find(struct value, const char *name);
struct value method_call(struct run *, const struct method *, struct call *);
const struct function *function_find(const char *name); /* NULL = no such function */
struct value function_call(struct run *, const struct function *, struct call *);
/* Return format % args, as Python's str does. */
struct value text_format(struct work *, struct value format, struct value args);

#endif
