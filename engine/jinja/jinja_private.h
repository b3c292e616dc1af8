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

/* The state of one compilation or run: memory, counters and error. A function that fails does not return. It calls
 * jinja_fail(), which jumps (longjmp) back to compile() or run_chat(). All memory is freed together at the end. */
struct work {
	struct chunk *chunk; /* newest chunk of memory */
	size_t used, cap;    /* number of bytes allocated so far, and its limit */
	int line;            /* line of the template that is being parsed or run, for error messages */
	uint64_t steps;      /* number of operations so far */
	int depth;           /* current level of nesting */
	jmp_buf back;        /* the point to which jinja_fail() jumps */
	struct err *err;     /* receives the error of jinja_fail() */
};
void *work_alloc(struct work *, size_t n); /* return n zeroed bytes; fail if the limit is exceeded */
void *work_array(struct work *, size_t n, size_t size);
/* If v has room for one more element, return v. Otherwise return a larger copy of v. v has n elements and room for *cap
 * elements of `size` bytes each. */
void *work_grow(struct work *, void *v, size_t n, size_t *cap, size_t size);
char *work_copy(struct work *, const char *p, size_t n); /* return a copy of the n bytes at p with a NUL after them */
void work_free(struct work *);
/* Add `steps` operations to the count; fail if it exceeds JINJA_STEPS_MAX. */
void work_spend(struct work *, size_t steps);
/* Stop with the error ERR_MODEL, which has the line of the template and the formatted sentence. */
_Noreturn void jinja_fail(struct work *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Count one more level of nesting at run time; work_leave() ends the level. Fail if there are more than
 * JINJA_DEPTH_MAX levels. */
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
		const char *hint; /* reason why a V_UNDEFINED is undefined ("'x' is undefined"), or NULL */
		int64_t i;        /* value of a V_BOOL or V_INT */
		double real;
		const struct text *text;
		const struct list *list; /* elements of a V_LIST or V_TUPLE */
		struct dict *dict;       /* entries of a V_DICT or V_NAMESPACE */
		struct loop *loop;
		const struct macro *macro;
		const struct method *method;
		const struct function *function;
	};
};
/* An immutable string: pieces in order. To make concatenation fast, the result may share its array of pieces with the
 * first operand. This is possible if the first operand's pieces are the last ones in their array: the second
 * operand's pieces are then appended to the same array. */
struct text {
	const struct jinja_piece *v;
	size_t n_piece;
	size_t n;               /* number of bytes of all pieces together */
	const char *flat;       /* all bytes as one array, or NULL until text_flat() has made this array */
	struct pieces *grow;    /* the shared array whose elements v points to, or NULL if v is not shared */
	struct jinja_piece one; /* if there is only one piece, v points here */
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

/* Arguments of a call. The n arguments v[] were passed by position, the n_named arguments named[] by name. name[i] is
 * the name of named[i]. */
struct call {
	struct value *v;
	size_t n;
	const char **name;
	struct value *named;
	size_t n_named;
};

/* ---- strings (jinja_text.c); int32_t from: an origin; size_t from: an offset in bytes ---- */

/* Return the n bytes at p as a string. The bytes are not copied. */
struct value text_value(struct work *, const char *p, size_t n, int32_t from);
/* Do what text_value() does, for a NUL-terminated text with the origin JINJA_TEMPLATE. */
struct value text_word(struct work *, const char *zero_terminated);
/* Convert the pieces to a string. From then on the string uses the array of the pieces. */
struct value text_pieces(struct work *, struct pieces *);
void pieces_add(struct work *, struct pieces *, const char *p, size_t n, int32_t from);
/* Append n bytes of a string, starting at byte `from`, to the pieces. */
void pieces_text(struct work *, struct pieces *, const struct text *, size_t from, size_t n);
/* Return all bytes of a string as one array, not NUL-terminated. */
const char *text_flat(struct work *, struct value);
struct value text_cat(struct work *, struct value a, struct value b);
/* Return n bytes of a string, starting at byte `from`. */
struct value text_sub(struct work *, struct value, size_t from, size_t n);
size_t text_length(struct work *, struct value); /* return the number of characters of a string */
/* return the byte offset of the character with this index in a string */
size_t text_byte(struct work *, struct value, size_t character);
/* Remove characters at the ends of a string. `sides` is 1 for the left end, 2 for the right end, 3 for both ends.
 * `chars` is a string of the characters to remove, or V_NONE for white space. */
struct value text_strip(struct work *, struct value, int sides, struct value chars);
/* Return the offset of the first occurrence of `sub` that begins at or after byte `from`, or SIZE_MAX if there is
 * none. */
size_t text_find(struct work *, struct value, struct value sub, size_t from);
/* Replace the first `most` occurrences of `old`, or all occurrences if most < 0. */
struct value text_replace(struct work *, struct value, struct value old, struct value new, int64_t most);
/* Change the case of ASCII letters. `how` is 'u' for upper(), 'l' for lower(), 'c' for capitalize(), 't' for the
 * method title(), and 'T' for the filter title. */
struct value text_case(struct work *, struct value, char how);
/* 1 if the string contains ASCII letters and text_case(how) would not change it. */
int text_cased(struct work *, struct value, char how);
/* 1 if the value is a string equal to `word`. */
int text_is(struct work *, struct value, const char *word);
/* Return a NUL-terminated copy of a string. */
char *text_zero(struct work *, struct value);
/* If the n bytes at p begin with a white space character as Python defines it, return the character's length in bytes.
 * Otherwise return 0. */
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
struct value v_dict(struct work *, enum kind); /* return an empty dictionary */
/* return the value of a key, or NULL if there is no such key */
struct value *dict_find(struct work *, const struct dict *, struct value key);
void dict_set(struct work *, struct dict *, struct value key, struct value);
struct value dict_items(struct work *, const struct dict *); /* return a list of (key, value) tuples */
const char *kind_name(struct value);                         /* return Python's name of the value's type */
int value_truth(struct value);
int is_number(struct value);
double as_number(struct value);
int values_equal(struct work *, struct value, struct value);
/* Compare two values: return < 0, 0 or > 0. Fail if Python defines no order for them. */
int values_compare(struct work *, struct value, struct value);
/* 1 if the container has the value: as a substring of a string, a key of a dictionary, or an element of a sequence. */
int value_contains(struct work *, struct value container, struct value);
/* Return str(value). */
struct value value_printed(struct work *, struct value);
/* Return Python's json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii, sort_keys=sort). If
 * `indent` or `separators` is V_NONE, Python's default is used. */
struct value as_json(struct work *, struct value, struct value indent, struct value separators, int ascii, int sort);
/* Return a list of the items that a loop over the value visits: elements, keys or characters. An undefined value gives
 * an empty list. Fail if the value cannot be iterated. */
struct value value_sequence(struct work *, struct value);
/* Sort the n values v[] in place by the keys key[n]. Values with equal keys keep their order. */
void sort_values(struct work *, struct value *v, const struct value *key, size_t n, int reverse);

/* ---- the tree ---- */

/* Kinds of nodes. A comment describes the node by its members in struct node, such as `a`, `b`, `c`, kid[] and `args`.
 * A member is NULL if the template does not have that part. */
enum op {
	/* Kinds of expressions: */
	E_CONST,
	E_NAME,   /* the variable `name` */
	E_LIST,   /* list with the elements kid[] */
	E_TUPLE,  /* tuple with the elements kid[] */
	E_DICT,   /* dictionary; kid[] has its first key, first value, second key, second value, and so on */
	E_ATTR,   /* attribute `name` of object `a` */
	E_ITEM,   /* item of object `a` at index `b` */
	E_SLICE,  /* slice of object `a`; kid[] has its start, stop and step, each NULL if the slice omits it */
	E_CALL,   /* call of function `a` with the arguments `args` */
	E_FILTER, /* filter `name` with the arguments `args`, applied to `a` (if `a` is NULL: to the text of a block) */
	E_TEST,   /* test `name` with the arguments `args`, applied to `a` */
	E_NOT,    /* the expression "not a", for a node `a` */
	E_NEG,    /* the expression "-a", for a node `a` */
	E_POS,    /* the expression "+a", for a node `a` */
	E_AND,    /* the operands kid[], joined by "and" */
	E_OR,     /* the operands kid[], joined by "or" */
	E_COMPARE, /* chain of comparisons of `a`, kid[0], kid[1], ...; relation[i] is the operator before kid[i] */
	E_ADD,     /* sum of the operands kid[] */
	E_SUB,     /* the operand kid[0] minus the operand kid[1] */
	E_MUL,     /* product of the operands `a` and `b`; E_DIV to E_POW also have two operands `a` and `b` */
	E_DIV,
	E_FLOOR,
	E_MOD,
	E_POW,
	E_CONCAT, /* the elements kid[], joined by "~" to a string */
	E_IF,     /* the expression "b if a else c"; `c` is NULL if there is no "else" */
	/* Kinds of statements: */
	S_TEXT,
	S_PRINT, /* {{ ... }}: print the expression `a` */
	/* {% if %}: kid[] has condition, body, condition, body, and so on, then the body of "else" if there is one */
	S_IF,
	/* {% for %}: run body `c` for each element of list `b`, assigned to target `a`; kid[0] is the condition after
	 * "if", kid[1] the body after "else" */
	S_FOR,
	S_SET, /* {% set %}: assign the value `b` to the target `a` */
	/* {% set %} block: apply filter `b`, if there is one, to the output of body `c`, and assign it to target `a` */
	S_SET_BLOCK,
	/* {% macro %}: define macro `name` with the parameters kid[], their default values `args` and the body `c` */
	S_MACRO,
	/* {% call %}: run the call `a` with one more argument, `caller`: a macro with the parameters kid[], their
	 * default values `args` and the body `c` */
	S_CALL,
	S_FILTER, /* {% filter %}: apply filter `a` to the output of body `c`, and print the result */
	/* {% with %}: run body `c` with variables; kid[] has a target, its value, the next target, its value, and so
	 * on */
	S_WITH,
	S_SCOPE, /* {% generation %}: run body `c` in a scope of its own */
	S_BREAK,
	S_CONTINUE,
	S_BODY, /* the statements kid[], run in order */
};
enum relation { R_EQ, R_NE, R_LT, R_LE, R_GT, R_GE, R_IN, R_NOT_IN };

/* Arguments of a call, as expressions. The n arguments v[] are passed by position, the n_named arguments named[] by
 * name. name[i] is the name of named[i]. */
struct args {
	struct node **v;
	size_t n;
	const char **name;
	struct node **named;
	size_t n_named;
	struct node *star, *stars; /* the arguments *list and **dict of the call; each may be NULL */
};
/* Node of the tree. The comments of enum op describe which members each kind of node uses. */
struct node {
	enum op op;
	int line;   /* line of the template */
	int height; /* height of the tree of expressions below this node */
	struct node *a, *b, *c;
	struct node **kid;
	size_t n_kid;
	const char *name;   /* interned (jinja_intern()): equal names have equal pointers */
	struct value value; /* value of an E_CONST, text of an S_TEXT */
	struct args *args;
	enum relation *relation;
	int recursive;
};

/* A compiled template. */
struct jinja {
	struct work work;
	struct node *body;
	const char **hash; /* open-addressing hash table of the names in the template */
	size_t hash_n;     /* number of slots of the hash table, a power of 2 */
	size_t n_name;     /* number of names in the hash table */
};
/* Return the interned pointer of a name: equal names have the same pointer. For a new name, jinja_intern() adds it, and
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
	size_t n;    /* length of p in bytes, for T_TEXT, T_NAME, T_STRING (escapes decoded) and T_MARK */
	int64_t i;   /* value of a T_INT */
	double real; /* value of a T_REAL */
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
	int loops;              /* number of loops around the current statement, within its macro */
};
struct node *node_new(struct parser *, enum op, struct node *a, struct node *b, struct node *c);
void node_add(struct parser *, struct node *, size_t *cap, struct node *kid);
int token_is(const struct token *, const char *mark_or_name);
/* if this is the next token, consume it and return 1; otherwise return 0 */
int token_skip(struct parser *, const char *mark_or_name);
/* consume this token; fail if the next token is another one */
void token_expect(struct parser *, const char *mark_or_name);
const char *token_name(struct parser *); /* consume a name and return its interned pointer */
/* Parse an expression. If with_if is 1, it may be `x if y else z`. */
struct node *parse_expression(struct parser *, int with_if);
/* Parse an expression or a tuple without brackets: a, b, c. */
struct node *parse_tuple(struct parser *, int with_if);
/* Parse the target of an assignment by {% set %}, {% for %} or {% with %}. */
struct node *parse_target(struct parser *, int with_attribute);
/* Parse filters after "|": "name|name(...)". If `operand` is NULL, the filters belong to a {% filter %} or {% set %}
 * block. */
struct node *parse_filters(struct parser *, struct node *operand);
struct node *parse_template(struct parser *);

/* ---- running ---- */

struct variable {
	const char *name;
	struct value value;
};
/* The n variables v[] of one scope. If a name is not among them, it is looked up in `parent`. */
struct scope {
	const struct scope *parent;
	struct variable *v;
	size_t n, cap;
};
struct macro {
	const struct node *node;
	struct scope *scope; /* scope in which the macro was defined */
};
struct loop {
	const struct node *node;
	struct scope *scope;   /* scope around the loop */
	struct value *v;       /* values to visit */
	size_t n, at;          /* number of values, and index of the current value */
	int depth;             /* level within a recursive loop, counted from 0 */
	struct value *changed; /* arguments of the last loop.changed() */
	size_t n_changed;      /* number of elements of `changed`, if `changed` is not NULL */
};
struct run {
	struct work w;
	const struct jinja *t;
	struct scope *scope, root; /* current and outermost scope */
	struct pieces *out;        /* output is appended to *out; NULL: output is passed to write() */
	size_t bytes, bytes_max;   /* number of bytes of output so far, written or captured, and its limit */
	void (*write)(void *, const struct jinja_piece *);
	void *ud;
};
struct value run_eval(struct run *, const struct node *);
struct value call_value(struct run *, struct value f, struct call *);
/* Set a variable in this scope. `name` is interned. */
void scope_set(struct run *, struct scope *, const char *name, struct value);
/* Evaluate the arguments of a call into *call. */
void run_call(struct run *, const struct args *, struct call *);
struct value run_macro(struct run *, const struct macro *, struct call *);
/* Run a recursive loop again over `list`: the loop's body has called loop(list). Return the output as a string. */
struct value run_loop(struct run *, struct loop *, struct value list);
/* Run statements up to the end of the body, or to {% break %} or {% continue %}. Return an enum (jinja_run.c) that says
 * which of these three ended the body. */
int run_body(struct run *, const struct node *body);

/* ---- attributes, items, arguments (jinja_access.c) ---- */

struct value get_attr(struct run *, struct value, const char *name);
struct value get_item(struct run *, struct value, struct value index);
/* Return an undefined value with a formatted text as its reason. */
struct value undefined_because(struct run *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fail if the value is undefined. An undefined value can only be tested, printed and iterated. */
void must_be_defined(struct run *, struct value);
/* Return the argument at position `at`. If there is none, return the argument called `name`. If there is none either,
 * or `name` is NULL, return `other`. */
struct value call_arg(const struct call *, size_t at, const char *name, struct value other);
/* Do what call_arg() does, for an argument that is an integer or a bool. For None, return `other`. Fail for all other
 * kinds. */
int64_t call_int(struct work *, const struct call *, size_t at, const char *name, int64_t other);

/* ---- filters, tests, methods, functions by name ---- */

struct value filter_apply(struct run *, const char *name, struct value, struct call *);
int filter_known(const char *name);
int test_apply(struct run *, const char *name, struct value, struct call *);
/* If the value has a method of this name, return the name as a static string. Otherwise return NULL. */
const char *method_find(struct value, const char *name);
struct value method_call(struct run *, const struct method *, struct call *);
/* return the function of this name, or NULL if there is no such function */
const struct function *function_find(const char *name);
struct value function_call(struct run *, const struct function *, struct call *);
/* Return the value of Python's expression format % args. */
struct value text_format(struct work *, struct value format, struct value args);

#endif
