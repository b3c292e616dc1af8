/* app/remote/request.c - writes a conversation as the JSON of a request (remote_private.h).
 *
 * Only settings that the user has set are sent. Hosted servers refuse unknown fields, so fields that OpenAI's protocol
 * does not have are sent only to programs that support them. */
#include "app/remote/remote_private.h"
#include "engine/base/json.h"

#include <string.h>

void messages_json(const struct remote *r, const struct remote_message *msg, size_t n, struct str *out)
{
	static const char *const role[] = {
		[ROLE_SYSTEM] = "system", [ROLE_USER] = "user", [ROLE_ASSISTANT] = "assistant"
	};
	int joined = (r->lacks & FIELD_SYSTEM) && n > 1 && msg[0].role == ROLE_SYSTEM && msg[1].role == ROLE_USER;
	struct str both = { 0 };

	json_open(out, "messages", '[');
	if (joined) {
		str_add(&both, msg[0].text, msg[0].n);
		str_adds(&both, "\n\n");
		str_add(&both, msg[1].text, msg[1].n);
	}
	for (size_t i = joined; i < n; i++) {
		int own = i > 1 || !joined;

		json_open(out, NULL, '{');
		json_string(out, "role", role[msg[i].role]);
		json_text(out, "content", own ? msg[i].text : both.p, own ? msg[i].n : both.n);
		json_close(out, '}');
	}
	json_close(out, ']');
	str_free(&both);
}

static void settings_json(const struct remote *r, const struct remote_request *q, struct str *out)
{
	const struct sampling *s = q->sampling;
	int more = r->info.kind == REMOTE_LLAMA || r->info.kind == REMOTE_VLLM || r->info.kind == REMOTE_SGLANG;
	const struct {
		enum sampling_setting which;
		const char *name;
		double value;
		int sent;
	} all[] = {
		{ SAMPLING_TEMP, "temperature", (double)s->temperature, 1 },
		{ SAMPLING_TOP_P, "top_p", (double)s->top_p, 1 },
		{ SAMPLING_PRESENCE, "presence_penalty", (double)s->presence_penalty, 1 },
		{ SAMPLING_FREQUENCY, "frequency_penalty", (double)s->frequency_penalty, 1 },
		{ SAMPLING_TOP_K, "top_k", s->top_k, more },
		{ SAMPLING_MIN_P, "min_p", (double)s->min_p, more },
		{ SAMPLING_REPEAT, r->info.kind == REMOTE_LLAMA ? "repeat_penalty" : "repetition_penalty",
		  (double)s->repeat_penalty, more },
	};

	for (size_t i = 0; i < LEN(all); i++)
		if (all[i].sent && q->said & 1u << all[i].which)
			json_real(out, all[i].name, all[i].value, "%.7g");
	if (q->seeded)
		json_uint(out, "seed", q->seed & INT64_MAX);
	if (q->most >= 0 && !(r->lacks & FIELD_LIMIT))
		json_int(out, r->lacks & FIELD_MAX_TOKENS ? "max_completion_tokens" : "max_tokens", q->most);
}

void request_json(const struct remote *r, const struct remote_request *q, struct str *out)
{
	int off;

	json_open(out, NULL, '{');
	json_text(out, "model", r->model.p, r->model.n);
	messages_json(r, q->msg, q->n_msg, out);
	json_bool(out, "stream", 1);
	if (!(r->lacks & FIELD_USAGE)) {
		json_open(out, "stream_options", '{');
		json_bool(out, "include_usage", 1);
		json_close(out, '}');
	}
	settings_json(r, q, out);
	if (r->info.kind == REMOTE_LLAMA)
		json_bool(out, "return_progress", 1);
	if (q->extends && r->info.kind != REMOTE_LLAMA) {
		json_bool(out, "add_generation_prompt", 0);
		json_bool(out, "continue_final_message", 1);
	}
	/* when llama-server continues an answer, also switch reasoning off: it cannot continue an answer if the
	 * template opens reasoning */
	off = q->no_thought || (q->extends && r->info.kind == REMOTE_LLAMA);
	if (r->info.think_switch && (off || q->thought)) {
		json_open(out, "chat_template_kwargs", '{');
		json_bool(out, "enable_thinking", !off);
		json_close(out, '}');
	}
	json_close(out, '}');
}
