/* app/tools/doctor.c - weir doctor: prints what weir finds on this machine, one fact per line. */
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/readline.h>

#include "app/remote/remote.h"
#include "app/tools/tools.h"
#include "sessions/import/import.h"
#include "sessions/sessions.h"
#include "sessions/snap/snap.h"
#include "sessions/store/store.h"
#include "ui/text/text.h"
#include "ui/ui.h"
#include "engine/base/json.h"
#include "engine/engine_machine.h"
#include "app/models/models.h"
#include "kernels/os.h"

static void line_head(struct str *s, const char *name)
{
	str_addf(s, "%-11s", name);
}

/* Append the versions of the loaded libraries, on lines of at most 100 bytes. */
static void doctor_libraries(struct str *s)
{
	struct str all = { 0 };
	size_t at = 0;

	str_addf(&all, "%s, readline %s, ", display_library(), rl_library_version);
	sessions_libraries(&all);
#ifdef _CS_GNU_LIBC_VERSION
	char libc[32] = "";

	/* glibc returns "glibc 2.36"; musl has no version to ask for */
	confstr(_CS_GNU_LIBC_VERSION, libc, sizeof libc);
	str_addf(&all, ", %s", *libc ? libc : "musl");
#endif
	line_head(s, "libraries");
	while (all.n - at > 100) {
		size_t n = 100;

		while (n && all.p[at + n - 1] != ',')
			n--;
		if (!n)
			break;
		str_addf(s, "%.*s\n%-11s", (int)n, all.p + at, "");
		at += n + 1;
	}
	str_addf(s, "%s\n", all.p + at);
	str_free(&all);
}

void version_describe(int verbose, struct str *out)
{
	str_addf(out, "weir %s\n", WEIR_VERSION);
	if (!verbose)
		return;
	line_head(out, "cpu");
	str_addf(out, "%s\n", engine_cpu_level());
	doctor_libraries(out);
	line_head(out, "compiler");
	str_addf(out, "%s\n", __VERSION__);
}

/* Append the result of the GPU's check, and a note that weir has not been measured on a real GPU yet. */
static void doctor_gpu_check(const struct options *o, const struct engine_gpu *gpu, struct str *s)
{
	str_adds(s, "\n");
	line_head(s, "");
	if (gpu->check[0]) {
		str_adds(s, "its check failed: ");
		clean_line(gpu->check, strlen(gpu->check), s);
		str_adds(s, "; weir computes on the CPU\n");
	} else {
		str_addf(s, "%s\n",
		         gpu_checks_for(o) ? "its check passed: the results agree with the CPU's"
		                           : "not checked, because WEIR_GPU_CHECK is off");
	}
	line_head(s, "");
	str_adds(s, GPU_UNPROVEN);
}

static void doctor_machine(const struct options *o, struct str *s)
{
	int threads = o->threads ? o->threads : os_cpus();
	uint64_t memory = engine_memory_free();
	struct engine_gpu gpu;

	line_head(s, "cpu");
	str_addf(s, "%s\n", engine_cpu_level());
	if (engine_amx()) {
		line_head(s, "amx");
		str_addf(s, "%s\n", engine_amx());
	}
	line_head(s, "threads");
	str_addf(s, "%d of %d cores\n", threads, os_cpus());
	line_head(s, "bandwidth");
	str_addf(s, "%.1f GB/s read with %d threads\n", engine_bandwidth(threads, 128u << 20) / 1e9, threads);
	line_head(s, "gpu");
	if (engine_gpu(&gpu, gpu_checks_for(o)) < 0) {
		str_adds(s, "none used: ");
		clean_line(gpu.text, strlen(gpu.text), s);
	} else {
		clean_line(gpu.text, strlen(gpu.text), s);
		str_adds(s, ", ");
		human_bytes(s, gpu.available);
		str_adds(s, " free of ");
		human_bytes(s, gpu.total);
		doctor_gpu_check(o, &gpu, s);
	}
	str_adds(s, "\n");
	line_head(s, "memory");
	if (memory != UINT64_MAX) {
		human_bytes(s, memory);
		str_adds(s, " free\n");
	} else {
		str_adds(s, "unknown\n");
	}
}

static void doctor_terminal(struct str *s)
{
	const char *term = getenv("TERM");
	struct winsize size = { 0 };

	line_head(s, "terminal");
	if (isatty(1) || isatty(0)) {
		clean_line(term ? term : "TERM is not set", strlen(term ? term : "TERM is not set"), s);
		if (!ioctl(isatty(1) ? 1 : 0, TIOCGWINSZ, &size))
			str_addf(s, ", %d columns, %d rows", size.ws_col, size.ws_row);
	} else {
		str_adds(s, "none: answers go to a pipe or a file");
	}
	str_addf(s, ", %s\n", nl_langinfo(CODESET));
}

/* Append how the process that parses documents and model files is restricted. */
static void doctor_jail(struct str *s)
{
	struct str jail = { 0 };
	struct err e = { 0 };

	line_head(s, "jail");
	if (doc_jail(&jail, &e) < 0)
		str_addf(s, "none: %s\n", e.msg);
	else
		str_addf(s, "documents and model files are read under %s\n", jail.p);
	str_free(&jail);
}

/* Append which program reads scanned pages and pictures. */
static void doctor_scans(struct str *s)
{
	struct str program = { 0 };
	struct err e = { 0 };

	line_head(s, "scans");
	if (doc_recogniser(&program, &e) < 0)
		str_adds(s, e.msg);
	else
		clean_line(program.p, program.n, s);
	str_adds(s, "\n");
	str_free(&program);
}

static void doctor_model(const struct options *o, struct str *s)
{
	struct str path = { 0 };
	struct engine *engine;
	struct err e = { 0 };

	line_head(s, "model");
	if (model_path(o, &path, &e) < 0) {
		str_addf(s, "%s\n", e.msg);
		return;
	}
	clean_line(path.p, path.n, s);
	if (model_open(&engine, o, MODEL_VOCAB, &e) < 0) {
		str_adds(s, "\n");
		line_head(s, "");
		clean_line(e.msg, strlen(e.msg), s);
	} else {
		struct stat st;
		const struct engine_info *i = engine_info(engine);
		if (!stat(path.p, &st)) {
			str_adds(s, ", ");
			human_bytes(s, (uint64_t)st.st_size);
		}
		str_adds(s, ", ");
		clean_line(i->tokenizer, strlen(i->tokenizer), s);
		str_addf(s, ", template %s", i->template_name[0] ? i->template_name : "none");
		engine_close(engine);
	}
	str_adds(s, "\n");
	str_free(&path);
}

static void doctor_encoder(const struct options *o, struct str *s)
{
	struct str path = { 0 };
	struct err e = { 0 };
	int found = encoder_path(o, &path, &e);

	line_head(s, "encoder");
	if (found > 0)
		clean_line(path.p, path.n, s);
	else if (found < 0)
		clean_line(e.msg, strlen(e.msg), s);
	else
		str_adds(
			s,
			"none: documents are searched by their words alone; 'make model' fetches one, 'weir pull' lists others");
	str_adds(s, "\n");
	str_free(&path);
}

/* Append the state of the server that runs the model, one line for each possible fault. The key is never shown. */
static void doctor_server(const struct options *o, struct str *s)
{
	static const char *const keys[] = {
		[REMOTE_KEY_NONE] = "none, and the server asks for none",
		[REMOTE_KEY_ACCEPTED] = "accepted",
		[REMOTE_KEY_REFUSED] = "refused",
		[REMOTE_KEY_UNKNOWN] = "not tried: the server does not say",
	};
	struct remote_options ro;
	struct remote_report report;
	const struct remote_info *i;
	struct remote *r;

	model_server_options(o, &ro);
	r = remote_probe(&ro, &report);
	i = r ? remote_info(r) : NULL;
	line_head(s, "server");
	if (!report.reached) {
		str_addf(s, "%s\n", report.why.msg);
		remote_close(r);
		return;
	}
	clean_line(i->server, strlen(i->server), s);
	str_addf(s, " answers, %s\n", *i->program ? i->program : "and does not say what program it is");
	line_head(s, "");
	if (report.why.code)
		str_addf(s, "%s\n", report.why.msg);
	else
		str_addf(s, "model %s, of %d in its list\n", i->model, report.n_models);
	line_head(s, "");
	str_addf(s, "key %s\n",
	         report.key == REMOTE_KEY_REFUSED && !ro.key && !ro.key_file
	                 ? "missing: WEIR_API_KEY or --key-file gives it"
	                 : keys[report.key]);
	line_head(s, "");
	if (i->ctx)
		str_addf(s, "context of %s tokens\n", count_text((uint64_t)i->ctx).s);
	else
		str_adds(s, "context not known: -c says how many tokens are sent at most\n");
	remote_close(r);
}

/* Append the names of a table, wrapped. name_of(i) returns name number i; NULL after the last name. */
static void doctor_names(struct str *s, const char *what, const char *name_of(size_t))
{
	size_t col = 0;

	line_head(s, what);
	for (size_t i = 0; name_of(i); i++) {
		size_t n = strlen(name_of(i));
		if (col && col + n + 1 > 68) {
			str_addf(s, "\n%-11s", "");
			col = 0;
		}
		str_addf(s, "%s%s", col ? " " : "", name_of(i));
		col += n + (col > 0);
	}
	str_adds(s, "\n");
}

static void doctor_dir(struct str *s, const char *name, const char *path)
{
	int64_t bytes = disk_free_bytes(path);

	line_head(s, name);
	clean_line(path, strlen(path), s);
	if (access(path, F_OK) < 0)
		str_adds(s, " (made when needed)");
	else if (access(path, W_OK) < 0)
		str_adds(s, " (not writable)");
	if (bytes >= 0) {
		str_adds(s, ", ");
		human_bytes(s, (uint64_t)bytes);
		str_adds(s, " free");
	}
	str_adds(s, "\n");
}

static void doctor_dirs(struct str *s)
{
	static const struct {
		const char *name;
		enum user_dir dir;
	} dirs[] = {
		{ "sessions", DIR_DATA },
		{ "cache", DIR_CACHE },
		{ "state", DIR_STATE },
		{ "config", DIR_CONFIG },
	};

	for (size_t i = 0; i < LEN(dirs); i++) {
		struct str path = { 0 };
		struct err e = { 0 };

		if (user_path(&path, dirs[i].dir, "", &e)) {
			line_head(s, dirs[i].name);
			str_addf(s, "%s\n", e.msg);
		} else {
			doctor_dir(s, dirs[i].name, path.p);
		}
		str_free(&path);
	}
}

/* Append the size of the snapshots in kv.db, without writing to kv.db. */
static void doctor_snapshots(struct str *s)
{
	struct store *store = NULL;
	struct snaps *snaps = NULL;
	struct err e = { 0 };
	uint64_t bytes, packed;

	line_head(s, "snapshots");
	if (store_open(&store, &(struct store_options){ .read_only = 1 }, &e) < 0 ||
	    snaps_open(&snaps, store, &(struct snaps_options){ .budget = 0 }, NULL, &e) < 0 ||
	    snaps_bytes(snaps, &bytes, &packed, &e) < 0)
		clean_line(e.msg, strlen(e.msg), s);
	else
		human_saved(s, bytes, packed);
	str_adds(s, "\n");
	if (snaps)
		snaps_close(snaps);
	if (store)
		store_close(store);
}

/* ---- as JSON ---- */

static void json_gpu(const struct options *o, struct str *s)
{
	struct engine_gpu gpu;
	int found = !engine_gpu(&gpu, gpu_checks_for(o));

	json_open(s, "gpu", '{');
	json_bool(s, "found", found);
	json_string(s, found ? "device" : "why", gpu.text);
	if (found) {
		json_uint(s, "memory_free", gpu.available);
		json_uint(s, "memory", gpu.total);
		json_bool(s, "usable", !gpu.check[0]);
		if (gpu.check[0])
			json_string(s, "why", gpu.check);
	}
	json_close(s, '}');
}

static void json_model(const struct options *o, struct str *s)
{
	struct engine *engine = NULL;
	struct str path = { 0 };
	struct err e = { 0 };

	json_open(s, "model", '{');
	if (model_path(o, &path, &e) < 0 || model_open(&engine, o, MODEL_VOCAB, &e) < 0) {
		json_bool(s, "usable", 0);
		json_string(s, "why", e.msg);
	} else {
		json_bool(s, "usable", 1);
		json_string(s, "tokenizer", engine_info(engine)->tokenizer);
		json_string(s, "template", engine_info(engine)->template_name);
	}
	if (path.n)
		json_text(s, "path", path.p, path.n);
	json_close(s, '}');
	engine_close(engine);
	str_free(&path);
}

static void json_server(const struct options *o, struct str *s)
{
	static const char *const keys[] = {
		[REMOTE_KEY_NONE] = "none",
		[REMOTE_KEY_ACCEPTED] = "accepted",
		[REMOTE_KEY_REFUSED] = "refused",
		[REMOTE_KEY_UNKNOWN] = "unknown",
	};
	struct remote_options ro;
	struct remote_report report;
	const struct remote_info *i;
	struct remote *r;

	model_server_options(o, &ro);
	r = remote_probe(&ro, &report);
	i = r ? remote_info(r) : NULL;
	json_open(s, "server", '{');
	json_bool(s, "usable", !report.why.code);
	json_bool(s, "reached", report.reached);
	if (report.why.code)
		json_string(s, "why", report.why.msg);
	if (report.reached) {
		json_string(s, "address", i->server);
		json_string(s, "program", i->program);
		json_string(s, "model", i->model);
		json_int(s, "models", report.n_models);
		json_string(s, "key", keys[report.key]);
		if (i->ctx)
			json_int(s, "context", i->ctx);
	}
	json_close(s, '}');
	remote_close(r);
}

static int doctor_json(const struct options *o)
{
	int threads = o->threads ? o->threads : os_cpus(), rc;
	uint64_t memory = engine_memory_free();
	struct str s = { 0 };
	struct err e = { 0 };

	json_open(&s, NULL, '{');
	json_string(&s, "version", WEIR_VERSION);
	json_string(&s, "cpu", engine_cpu_level());
	if (engine_amx())
		json_string(&s, "amx", engine_amx());
	json_int(&s, "threads", threads);
	json_int(&s, "cores", os_cpus());
	json_real(&s, "bandwidth_gbps", engine_bandwidth(threads, 128u << 20) / 1e9, "%.3f");
	json_gpu(o, &s);
	if (memory != UINT64_MAX)
		json_uint(&s, "memory_free", memory);
	if (model_server(o))
		json_server(o, &s);
	else
		json_model(o, &s);
	json_close(&s, '}');
	str_adds(&s, "\n");
	rc = print_json(&s, &e) < 0 ? fail(&e) : 0;
	str_free(&s);
	return rc;
}

int cmd_doctor(const struct options *o)
{
	struct str s = { 0 };
	struct err e = { 0 };
	int rc;

	if (o->json)
		return doctor_json(o);

	line_head(&s, "weir");
	str_addf(&s, "%s\n", WEIR_VERSION);
	doctor_machine(o, &s);
	doctor_libraries(&s);
	doctor_terminal(&s);
	doctor_jail(&s);
	doctor_scans(&s);
	if (model_server(o))
		doctor_server(o, &s);
	else
		doctor_model(o, &s);
	doctor_encoder(o, &s);
	doctor_dirs(&s);
	doctor_snapshots(&s);
	doctor_names(&s, "families", engine_arch_name);
	doctor_names(&s, "tokenizers", engine_pre_name);
	doctor_names(&s, "templates", engine_template_name);
	rc = print_all(s.p, s.n, &e) < 0 ? fail(&e) : 0;
	str_free(&s);
	return rc;
}
