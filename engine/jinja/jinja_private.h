/* engine/jinja/jinja_private.h (private to engine/jinja/jinja*.c) - interfaces between the parts of the interpreter.
 *
 * jinja.c           compile and run from outside
 * jinja_work.c      memory, bounds, failure, names
 * jinja_lex.c       a template's text as tokens; white space control
 * jinja_parse.c     statements        jinja_expr.c   expressions, both as one tree
 * jinja_value.c     values: truth, order, printing, containers
 * jinja_text.c      strings of pieces with their origin
 * jinja_access.c    attributes and items of values, arguments of calls
 * jinja_run.c       runs statements   jinja_eval.c   evaluates expressions
 * jinja_filters.c   filters and tests by name
 * jinja_methods.c   methods of strings and dictionaries, global functions */
#ifndef WEIR_JINJA_PRIVATE_H
#define WEIR_JINJA_PRIVATE_H

#include <setjmp.h>
#include <stdint.h>

#include "engine/jinja/jinja.h"

/* ---- memory and failure (jinja_work.c) ---- */

/* Memory that is freed as a whole, the line at work, and the way out: a failure returns to setjmp() in jinja_compile()
 * or jinja_run(). */
struct work {
	struct chunk *chunk;
	size_t used, cap; /* bytes, of all chunks */
	int line;
	uint64_t steps;
	int depth;
	jmp_buf back;
	struct err *err;
};
void *work_alloc(struct work *, size_t n); /* zeroed; fails past the cap */
void *work_array(struct work *, size_t n, size_t size);
/* Room for one more element in an array that grows: returns v, or a larger copy. */
void *work_grow(struct work *, void *v, size_t n, size_t *cap, size_t size);
char *work_copy(struct work *, const char *p, size_t n); /* with a zero behind it */
void work_free(struct work *);
void spend(struct work *, size_t steps);
_Noreturn void jinja_fail(struct work *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void enter(struct work *); /* one level deeper, until leave() */
void leave(struct work *);

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
		const char *hint; /* V_UNDEFINED: why, as "'x' is undefined"; may be NULL */
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
/* Pieces in order.  Immutable, but `grow` may have room behind v[n_piece]: concatenation appends there. */
struct text {
	const struct jinja_piece *v;
	size_t n_piece;
	size_t n;         /* bytes */
	const char *flat; /* all bytes in one place; NULL: not yet asked for */
	struct pieces *grow;
	struct jinja_piece one; /* v, where there is one piece */
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
struct method {
	struct value self;
	const char *name;
};

/* Arguments of a call. */
struct call {
	struct value *v;
	size_t n;
	const char **name;
	struct value *named;
	size_t n_named;
};

/* Strings (jinja_text.c).  from: an origin. */
struct value text_value(struct work *, const char *p, size_t n, int32_t from); /* the bytes are not copied */
struct value text_word(struct work *, const char *zero_terminated);            /* the template's; not copied */
struct value text_pieces(struct work *, struct pieces *);                      /* takes them over */
void pieces_add(struct work *, struct pieces *, const char *p, size_t n, int32_t from);
/* bytes from .. from + n */
void pieces_text(struct work *, struct pieces *, const struct text *, size_t from, size_t n);
const char *text_flat(struct work *, struct value);
struct value text_cat(struct work *, struct value a, struct value b);
struct value text_sub(struct work *, struct value, size_t from, size_t n); /* bytes */
size_t text_length(struct work *, struct value);                           /* characters */
size_t text_byte(struct work *, struct value, size_t character);           /* where a character begins */
/* sides: 1 left, 2 right; chars: V_NONE: white space */
struct value text_strip(struct work *, struct value, int sides, struct value chars);
size_t text_find(struct work *, struct value, struct value sub, size_t from); /* byte, or SIZE_MAX */
/* most < 0: all */
struct value text_replace(struct work *, struct value, struct value old, struct value new, int64_t most);
/* 'u' upper, 'l' lower, 'c' capitalize, 't' title(), 'T' the filter title */
struct value text_case(struct work *, struct value, char how);
/* it has letters, and all are in that case */
int text_cased(struct work *, struct value, char how);
int text_is(struct work *, struct value, const char *word); /* a string that says word */
char *text_zero(struct work *, struct value);               /* with a zero behind it */
/* bytes of the white space that p[0..n) begins with */
size_t blank_at(const char *p, size_t n);

/* Other values (jinja_value.c). */
struct value v_bool(int), v_int(int64_t), v_real(double), v_none(void), v_undefined(const char *hint);
struct value v_list(struct work *, enum kind, size_t cap); /* empty, with room */
void list_add(struct work *, struct value list, struct value);
struct value v_dict(struct work *, enum kind);
struct value *dict_find(struct work *, const struct dict *, struct value key); /* or NULL */
void dict_set(struct work *, struct dict *, struct value key, struct value);
struct value dict_items(struct work *, const struct dict *); /* its pairs of key and value */
const char *kind_name(struct value);                         /* as Python names the type */
int truth(struct value);
int is_number(struct value);
double as_number(struct value);
int equal(struct work *, struct value, struct value);
/* < 0, 0, > 0; fails for what has no order */
int compare(struct work *, struct value, struct value);
int contains(struct work *, struct value container, struct value);
struct value printed(struct work *, struct value); /* str() */
struct value as_json(struct work *, struct value, struct value indent, struct value separators, int ascii, int sort);
/* what a loop goes over, as a list; fails for others */
struct value sequence(struct work *, struct value);
void sort_values(struct work *, struct value *v, const struct value *key, size_t n, int reverse);

/* ---- the tree ---- */

enum op {
	/* expressions */
	E_CONST,
	E_NAME,
	E_LIST,
	E_TUPLE,
	E_DICT,
	E_ATTR,
	E_ITEM,
	E_SLICE,
	E_CALL,
	E_FILTER,
	E_TEST,
	E_NOT,
	E_NEG,
	E_POS,
	E_AND,
	E_OR,
	E_COMPARE,
	E_ADD,
	E_SUB,
	E_MUL,
	E_DIV,
	E_FLOOR,
	E_MOD,
	E_POW,
	E_CONCAT,
	E_IF,
	/* statements */
	S_TEXT,
	S_PRINT,
	S_IF,
	S_FOR,
	S_SET,
	S_SET_BLOCK,
	S_MACRO,
	S_CALL,
	S_FILTER,
	S_WITH,
	S_SCOPE,
	S_BREAK,
	S_CONTINUE,
	S_BODY,
};
enum relation { R_EQ, R_NE, R_LT, R_LE, R_GT, R_GE, R_IN, R_NOT_IN };

struct args {
	struct node **v;
	size_t n;
	const char **name;
	struct node **named;
	size_t n_named;
	struct node *star, *stars; /* *list, **dict */
};
/*                 a            b            c            kid                     name
 * E_NAME                                                                         variable
 * E_LIST, TUPLE, CONCAT, BODY                            elements
 * E_DICT                                                 key, value, key, ...
 * E_ATTR          object                                                         attribute
 * E_ITEM          object       index
 * E_SLICE         object                                 from, to, step; NULL: none
 * E_CALL          function     (args)
 * E_FILTER, TEST  operand      (args)                                            filter, test; E_FILTER in a block: a NULL at its end
 * E_COMPARE       first                                  the others              (relation: one for each)
 * E_IF            condition    then         else or NULL
 * S_PRINT         expression
 * S_IF                                                   condition, body, ...; a last body alone: else
 * S_FOR           target       list         body         filter or NULL, else or NULL      (recursive)
 * S_SET           target       value
 * S_SET_BLOCK     target       filter or NULL  body
 * S_MACRO                      (args: defaults)  body    parameters (E_NAME)     macro
 * S_CALL          call         (args: defaults)  body    parameters
 * S_FILTER        filter                    body
 * S_WITH                                    body         target, value, ...
 * S_SCOPE                                   body */
struct node {
	enum op op;
	int line, height;
	struct node *a, *b, *c;
	struct node **kid;
	size_t n_kid;
	const char *name;   /* interned: one pointer for one name */
	struct value value; /* E_CONST, S_TEXT */
	struct args *args;
	enum relation *relation;
	int recursive;
};

struct jinja {
	struct work work;
	struct node *body;
	const char **hash; /* [hash_n], a power of 2: names by hash */
	size_t hash_n, n_name;
};
/* The one pointer for a name; jinja_name(): NULL where the template does not use it. */
const char *jinja_intern(struct jinja *, const char *p, size_t n);
const char *jinja_name(const struct jinja *, const char *name);

/* ---- parsing ---- */

enum token_kind { T_END, T_TEXT, T_PRINT, T_PRINT_END, T_BLOCK, T_BLOCK_END, T_NAME, T_STRING, T_INT, T_REAL, T_MARK };
struct token {
	enum token_kind kind;
	int line;
	const char *p;
	size_t n; /* T_TEXT, T_NAME, T_STRING (decoded), T_MARK */
	int64_t i;
	double real;
};
struct lexed {
	struct token *v;
	size_t n, cap;
};
void jinja_lex(struct work *, const char *text, size_t n, struct lexed *out);

struct parser {
	struct jinja *t;
	struct work *w;
	const struct token *at;
	int loops; /* enclosing loops of this macro */
};
struct node *node_new(struct parser *, enum op, struct node *a, struct node *b, struct node *c);
void node_add(struct parser *, struct node *, size_t *cap, struct node *kid);
int token_is(const struct token *, const char *mark_or_name);
int token_skip(struct parser *, const char *mark_or_name); /* 1 and one further where it is there */
void token_expect(struct parser *, const char *mark_or_name);
const char *token_name(struct parser *); /* a name, interned, and one further */
/* One expression; with_if: may have an inline if.  tuple: also a, b, c without brackets. */
struct node *parse_expression(struct parser *, int with_if);
struct node *parse_tuple(struct parser *, int with_if);
struct node *parse_target(struct parser *, int with_attribute);    /* of set, for, with */
struct node *parse_filters(struct parser *, struct node *operand); /* name, name|name(...): those of a block */
struct args *parse_args(struct parser *);                          /* behind "(" */
struct node *parse_postfix(struct parser *, struct node *);
struct node *parse_template(struct parser *);

/* ---- running ---- */

struct variable {
	const char *name;
	struct value value;
};
struct scope {
	const struct scope *parent;
	struct variable *v;
	size_t n, cap;
};
struct macro {
	const struct node *node;
	struct scope *scope; /* where it was defined */
};
struct loop {
	const struct node *node;
	struct scope *scope;
	struct value *v;
	size_t n, at;
	int depth;
	struct value *changed;
	size_t n_changed; /* of loop.changed() */
};
struct run {
	struct work w; /* first: a struct work is a struct run here */
	const struct jinja *t;
	struct scope *scope, root;
	struct pieces *out;
	size_t bytes, bytes_max; /* of all output so far */
	void (*write)(void *, const struct jinja_piece *);
	void *ud;
};
struct value eval(struct run *, const struct node *);
struct value call_value(struct run *, struct value f, struct call *);
void scope_set(struct run *, struct scope *, const char *name, struct value);
void run_call(struct run *, const struct args *, struct call *); /* evaluate arguments */
void run_print(struct run *, struct value);
struct value run_capture(struct run *, const struct node *body); /* its output as a string */
struct value run_macro(struct run *, const struct macro *, struct call *);
struct value run_loop(struct run *, struct loop *, struct value list); /* loop(...) of a recursive loop */
int run_body(struct run *, const struct node *body);
void run_assign(struct run *, const struct node *target, struct value);

/* Attributes, items, arguments (jinja_access.c). */
struct value get_attr(struct run *, struct value, const char *name);
struct value get_item(struct run *, struct value, struct value index);
struct value undefined(struct run *, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* and why */
/* an undefined value may be tested and printed, nothing else */
void must_be_defined(struct run *, struct value);
/* Argument `at` or `name`; `other` where it is missing. */
struct value call_arg(const struct call *, size_t at, const char *name, struct value other);
int64_t call_int(struct work *, const struct call *, size_t at, const char *name, int64_t other);

/* By name (jinja_filters.c, jinja_tests.c). */
struct value filter_apply(struct run *, const char *name, struct value, struct call *);
int filter_known(const char *name);
int test_apply(struct run *, const char *name, struct value, struct call *);

/* A method of a value by name, or NULL. */
const char *method_find(struct value, const char *name);
struct value method_call(struct run *, const struct method *, struct call *);
const struct function *function_find(const char *name);
struct value function_call(struct run *, const struct function *, struct call *);
struct value text_format(struct work *, struct value format, struct value args); /* % */

#endif
