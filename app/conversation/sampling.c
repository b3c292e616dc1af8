/* app/conversation/sampling.c - chooses the sampling settings, and displays each with its origin (conversation.h). */
#include "app/conversation/conversation.h"
#include "engine/base/json.h"

#include <string.h>

/* 1 if the model's answers begin with reasoning, for the current value of --think. */
static int model_reasons(const struct options *o, const struct engine_info *i)
{
	if (o->think && !strcmp(o->think, "off"))
		return i->thinks_first && !i->think_switch;
	if (o->think && !strcmp(o->think, "on"))
		return i->thinks_first || i->think_switch || i->think_ask;
	/* --think auto: the model reasons if its template opens <think> itself (thinks_first). It also reasons if the
	 * template can turn reasoning off (think_switch), but has no way to ask for reasoning (think_ask). */
	return i->thinks_first || (i->think_switch && !i->think_ask);
}

void sampling_choose(const struct options *o, const struct engine *engine, struct sampling_choice *out)
{
	if (engine)
		engine_sampling(engine, model_reasons(o, engine_info(engine)), out);
	else
		*out = (struct sampling_choice){ .s = sampling_default };
	for (int i = 0; i < SAMPLING_SETTINGS; i++) {
		if (!engine)
			out->from[i] = SAMPLING_SERVER;
		if (o->sampling_set & 1u << i) {
			sampling_take(&out->s, &o->sampling, (enum sampling_setting)i);
			out->from[i] = SAMPLING_USER;
		}
	}
}

static double setting_value(const struct sampling *s, int i)
{
	const double value[SAMPLING_SETTINGS] = {
		[SAMPLING_TEMP] = (double)s->temperature,
		[SAMPLING_TOP_K] = s->top_k,
		[SAMPLING_TOP_P] = (double)s->top_p,
		[SAMPLING_MIN_P] = (double)s->min_p,
		[SAMPLING_REPEAT] = (double)s->repeat_penalty,
		[SAMPLING_PRESENCE] = (double)s->presence_penalty,
		[SAMPLING_FREQUENCY] = (double)s->frequency_penalty,
	};

	return value[i];
}

static const char *const name[SAMPLING_SETTINGS] = {
	"temp", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty"
};
static const char *const source[] = {
	[SAMPLING_DEFAULT] = "default", [SAMPLING_FAMILY] = "family", [SAMPLING_FILE] = "model file",
	[SAMPLING_USER] = "yours",      [SAMPLING_SERVER] = "server",
};

static void add_source(const struct sampling_choice *c, unsigned from, struct str *out)
{
	str_addf(out, from == SAMPLING_FAMILY ? " (%s: %s)" : " (%s)", source[from], c->family);
}

void sampling_value(const struct sampling_choice *c, enum sampling_setting i, struct str *out)
{
	if (c->from[i] == SAMPLING_SERVER)
		str_adds(out, "auto");
	else
		str_addf(out, "%g", setting_value(&c->s, i));
}

void sampling_show(const struct sampling_choice *c, enum sampling_setting i, struct str *out)
{
	sampling_value(c, i, out);
	add_source(c, c->from[i], out);
}

void sampling_line(const struct sampling_choice *c, struct str *out)
{
	static const unsigned char order[] = { SAMPLING_USER, SAMPLING_FILE, SAMPLING_FAMILY, SAMPLING_DEFAULT };
	size_t began = out->n;

	for (size_t k = 0; k < sizeof order; k++) {
		int n = 0;

		for (int i = 0; i < SAMPLING_SETTINGS; i++) {
			double off = i == SAMPLING_REPEAT ? 1 : 0, value = setting_value(&c->s, i);

			/* Leave out a penalty that has its default value and no effect. */
			if (c->from[i] == order[k] &&
			    (i < SAMPLING_REPEAT || order[k] != SAMPLING_DEFAULT || value < off || value > off))
				str_addf(out, "%s%s %g", n++ ? ", " : out->n > began ? "; " : "", name[i], value);
		}
		if (n)
			add_source(c, order[k], out);
	}
	for (char *p = out->n > began ? out->p + began : NULL; p && *p; p++)
		*p = *p == '_' ? '-' : *p;
}

void sampling_json(const struct sampling_choice *c, const char *key, struct str *out)
{
	json_open(out, key, '{');
	for (int i = 0; i < SAMPLING_SETTINGS; i++) {
		json_open(out, name[i], '{');
		if (c->from[i] == SAMPLING_SERVER)
			json_null(out, "value");
		else
			json_real(out, "value", setting_value(&c->s, i), "%.7g");
		json_string(out, "from", source[c->from[i]]);
		json_close(out, '}');
	}
	json_string(out, "family", c->family);
	json_close(out, '}');
}

unsigned sampling_from_json(struct jv v, struct sampling *out)
{
	unsigned known = 0;

	for (int i = 0; i < SAMPLING_SETTINGS; i++) {
		struct sampling one = { 0 };
		double value;

		if (jv_number(jv_get(jv_get(v, name[i]), "value"), &value) < 0)
			continue;
		one.temperature = one.top_p = one.min_p = one.repeat_penalty = one.presence_penalty =
			one.frequency_penalty = (float)value;
		one.top_k = i == SAMPLING_TOP_K ? (int32_t)MIN(MAX(value, 0), INT32_MAX) : 0;
		sampling_take(out, &one, (enum sampling_setting)i);
		known |= 1u << i;
	}
	return known;
}
