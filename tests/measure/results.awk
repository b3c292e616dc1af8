# tests/measure/results.awk - makes the tables of tests/results/DATE-tables.md from one part's JSON lines
# (tests/measure/results.sh).  -v part=NAME

function text(key,   at) {
	at = index($0, "\"" key "\":\"")
	return at ? substr($0, at + length(key) + 4, index(substr($0, at + length(key) + 4), "\"") - 1) : ""
}
function number(key,   at) {
	at = index($0, "\"" key "\":")
	return at ? substr($0, at + length(key) + 3) + 0 : 0
}
# Set list[1..] to the numbers of an array. Returns how many there are.
function numbers(key, list,   at, s) {
	at = index($0, "\"" key "\":[")
	if (!at)
		return 0
	s = substr($0, at + length(key) + 4)
	return split(substr(s, 1, index(s, "]") - 1), list, ",")
}
function remember(name, order, count) {   # add a name to a list of names, in order of appearance
	if (!((order, name) in known)) {
		known[order, name] = 1
		seq[order, ++number_of[order]] = name
	}
}
function ordered(order, i) { return seq[order, i] }
function percent(d) { return 100 * (exp(d) - 1) }

# ---- sums with errors: add(name, x), mean_of(name), error_of(name) ----
function add(name, x) { sum[name] += x; squares[name] += x * x; times[name]++ }
function mean_of(name) { return times[name] ? sum[name] / times[name] : 0 }
function error_of(name,   n, m, v) {
	n = times[name]
	if (n < 2)
		return 0
	m = sum[name] / n
	v = (squares[name] - n * m * m) / (n - 1)
	return v > 0 ? sqrt(v / n) : 0
}

# How far back the policies reach. The published formula is the sum of W f^i over the n rings, with W slots in each ring.
part == "cascade" && text("draw") == "span" {
	kv = text("kv")
	remember(kv, "spans"); reaches[kv] = number("span"); read_of[kv] = number("tokens")
	next
}
function setting_of(kv, key, preset) { return match(kv, "[:,]" key "=[0-9]+") ? substr(kv, RSTART + length(key) + 2, RLENGTH) + 0 : preset }
function span_table(   i, r, kv, n, f, reach) {
	if (!number_of["spans"])
		return
	printf "How far back the oldest token behind the sinks lies that any layer and head keeps, read in strides of 64:\n\n"
	printf "| policy | tokens read | reaches back | as published, size / n (1 + f + f² ...) |\n|---|---|---|---|\n"
	for (i = 1; i <= number_of["spans"]; i++) {
		kv = ordered("spans", i)
		n = setting_of(kv, "n", kv ~ /^sink/ ? 1 : 2); f = setting_of(kv, "f", 2); reach = 0
		for (r = 0; r < n; r++)
			reach += f ^ r
		printf "| `%s` | %d | %d | %d |\n", kv, read_of[kv], reaches[kv], setting_of(kv, "size", 1024) / n * reach
	}
	printf "\n"
}
part == "stream" || part == "cascade" {
	n = split(text("unit"), u, "/")
	book = u[1]; setting = u[2] "/" u[3] "/" u[4]; kv = u[5]
	remember(setting, "setting"); remember(book, "book:" setting); remember(kv, "kv:" setting)
	ppl[setting, book, kv] = number("ppl")
	nll[setting, kv] += number("nll"); scored[setting, kv] += number("scored"); spent[setting, kv] += number("seconds")
	kind = kv; sub(/:.*/, "", kind)
	if (kind == "sink")
		sink[setting] = kv
	if (kv ~ (part == "cascade" ? "^cascade:size=[0-9]+,n=4,stride=1,heads=layer,reduce=mean$" : "^cascade:size=[0-9]+,n=4,stride=[0-9]+$"))
		plain[setting] = kv
	n = numbers("curve", c)
	for (i = 1; i <= n; i++)
		block[setting, book, kv, i] = c[i] - (i > 1 ? c[i - 1] : 0)
	blocks[setting, book] = n; every = number("every")
}
function stream_table(   s, k, b, i, setting, kv, book, u, name) {
	for (s = 1; s <= number_of["setting"]; s++) {
		setting = ordered("setting", s)
		split(setting, u, "/")
		printf "### %s\n\n| policy |", u[2] + 0 ? "size " u[1] ", stride " u[2] ", " u[3] " tokens a book" : "full attention, " u[3] " tokens a book"
		for (b = 1; b <= number_of["book:" setting]; b++)
			printf " %s |", ordered("book:" setting, b)
		printf " all | against sink | against n=4 | tokens/s |\n|---|"
		for (b = 1; b <= number_of["book:" setting] + 4; b++)
			printf "---|"
		printf "\n"
		for (k = 1; k <= number_of["kv:" setting]; k++) {
			kv = ordered("kv:" setting, k)
			printf "| `%s` |", kv
			name = "stream " setting " " kv
			for (b = 1; b <= number_of["book:" setting]; b++) {
				book = ordered("book:" setting, b)
				if (!((setting, book, kv) in ppl)) {
					printf " - |"
					continue
				}
				printf " %.3f |", ppl[setting, book, kv]
				for (i = 1; i <= blocks[setting, book]; i++) {
					if (!((setting, book, kv, i) in block))
						continue
					if ((setting, book, sink[setting], i) in block)
						add("sink " name, (block[setting, book, kv, i] - block[setting, book, sink[setting], i]) / every)
					if ((setting, book, plain[setting], i) in block)
						add("plain " name, (block[setting, book, kv, i] - block[setting, book, plain[setting], i]) / every)
				}
			}
			printf " %.3f | ", exp(nll[setting, kv] / scored[setting, kv])
			printf kv == sink[setting] || !times["sink " name] ? "- |" : "%+.2f ± %.2f %% |", percent(mean_of("sink " name)), 100 * error_of("sink " name)
			printf kv == plain[setting] || !times["plain " name] ? " - |" : " %+.2f ± %.2f %% |", percent(mean_of("plain " name)),
				100 * error_of("plain " name)
			printf " %.0f |\n", spent[setting, kv] ? scored[setting, kv] / spent[setting, kv] : 0
		}
		printf "\n"
	}
}

part == "last" {
	split(text("unit"), u, "/")
	setting = u[1] "/" u[2]; window = u[3] "/" u[4]; kv = text("kv")
	remember(setting, "setting"); remember(window, "window:" setting); remember(kv, "kv:" setting)
	loss[setting, window, kv] = number("nll") / number("scored")
	add("read " setting " " kv, number("read"))
}
function last_table(   s, k, w, setting, kv, window, u, name, base) {
	for (s = 1; s <= number_of["setting"]; s++) {
		setting = ordered("setting", s)
		split(setting, u, "/")
		base = "sift:k=" u[2]
		printf "### L = %d, K = %d (L / %d), %d windows\n\n", u[1], u[2], u[1] / u[2], number_of["window:" setting]
		printf "| policy | perplexity | ratio to full | against sift | MB |\n|---|---|---|---|---|\n"
		for (k = 1; k <= number_of["kv:" setting]; k++) {
			kv = ordered("kv:" setting, k)
			name = setting " " kv
			for (w = 1; w <= number_of["window:" setting]; w++) {
				window = ordered("window:" setting, w)
				if (!((setting, window, kv) in loss))
					continue
				add("loss " name, loss[setting, window, kv])
				if ((setting, window, "full") in loss)
					add("ratio " name, loss[setting, window, kv] - loss[setting, window, "full"])
				if ((setting, window, base) in loss)
					add("sift " name, loss[setting, window, kv] - loss[setting, window, base])
			}
			printf "| `%s` | %.3f |", kv, exp(mean_of("loss " name))
			if (kv == "full")
				printf " 100 |"
			else
				printf " %.2f ± %.2f |", 100 + percent(mean_of("ratio " name)), 100 * error_of("ratio " name)
			if (kv == base)
				printf " - |"
			else
				printf " %+.2f ± %.2f %% |", percent(mean_of("sift " name)), 100 * error_of("sift " name)
			printf " %.2f |\n", mean_of("read " name) / 1e6
		}
		printf "\n"
	}
}

# The k of a policy, or its size.
function fitted(kv) { return match(kv, /(k|size)=[0-9]+/) ? substr(kv, RSTART + index(substr(kv, RSTART), "="), RLENGTH) + 0 : 512 }
part == "recovery" && text("task") == "recovery" {
	split(text("unit"), u, "/")
	setting = u[1]; kv = text("kv")
	remember(setting, "setting"); remember(kv, "kv:" setting)
	n = numbers("scores", c)
	for (i = 1; i <= n; i++)
		add("mass " setting " " kv, c[i])
	add("oracle " setting " " kv, number("oracle")); add("last " setting " " kv, number("last_row")); add("mean " setting " " kv, number("mean_row"))
	add("recent " setting " " kv, number("recent")); add("entries " setting " " kv, number("k"))
	add("fitted " setting " " kv, fitted(text("fitted")))
}
function recovery_table(   s, k, setting, kv, name) {
	for (s = 1; s <= number_of["setting"]; s++) {
		setting = ordered("setting", s)
		printf "### %d entries\n\n| policy | fitted | entries read | recovered | oracle | last row | mean row | recent | windows |\n|---|---|---|---|---|---|---|---|---|\n", setting
		for (k = 1; k <= number_of["kv:" setting]; k++) {
			kv = ordered("kv:" setting, k)
			name = setting " " kv
			printf "| `%s` | %.0f | %.0f%s | %.2f ± %.2f | %.2f | %.2f | %.2f | %.2f | %d |\n", kv, mean_of("fitted " name), mean_of("entries " name),
				(mean_of("entries " name) > 1.02 * setting || mean_of("entries " name) < 0.98 * setting) ? " (!)" : "", 100 * mean_of("mass " name),
				100 * error_of("mass " name), 100 * mean_of("oracle " name), 100 * mean_of("last " name), 100 * mean_of("mean " name),
				100 * mean_of("recent " name), times["mass " name]
		}
		printf "\n"
	}
}

part == "ruler" || part == "pools" {
	n = numbers("scores", c)
	setting = number("len") " tokens, " n " samples a task"; task = text("task"); kv = text("kv")
	remember(setting, "setting"); remember(task, "task:" setting); remember(kv, "kv:" setting)
	score[setting, task, kv] = number("score")
	for (i = 1; i <= n; i++)
		one[setting, task, kv, i] = c[i]
	count[setting, task] = n
}
function ruler_table(   s, k, t, i, setting, kv, task, name) {
	for (s = 1; s <= number_of["setting"]; s++) {
		setting = ordered("setting", s)
		printf "### %s\n\n| policy |", setting
		for (t = 1; t <= number_of["task:" setting]; t++)
			printf " %s |", ordered("task:" setting, t)
		printf " mean | against full |\n|---|"
		for (t = 1; t <= number_of["task:" setting] + 2; t++)
			printf "---|"
		printf "\n"
		for (k = 1; k <= number_of["kv:" setting]; k++) {
			kv = ordered("kv:" setting, k)
			name = "ruler " setting " " kv
			printf "| `%s` |", kv
			for (t = 1; t <= number_of["task:" setting]; t++) {
				task = ordered("task:" setting, t)
				if ((setting, task, kv) in score)
					printf " %.1f |", 100 * score[setting, task, kv]
				else
					printf " |"
				if (score[setting, task, "full"] < 0.3)
					continue
				for (i = 1; i <= count[setting, task]; i++)
					if ((setting, task, kv, i) in one) {
						add(name, one[setting, task, kv, i])
						add("full " name, one[setting, task, kv, i] - one[setting, task, "full", i])
					}
			}
			printf " %.1f |", 100 * mean_of(name)
			if (kv == "full")
				printf " - |\n"
			else
				printf " %+.1f ± %.1f |\n", 100 * mean_of("full " name), 100 * error_of("full " name)
		}
		printf "\n"
	}
}

part == "passkey" {
	if (!passkeys++)
		printf "| tokens | policy | all | first | second | third | fourth | last | samples |\n|---|---|---|---|---|---|---|---|---|\n"
	printf "| %d | `%s` | %.1f ± %.1f |", number("len"), text("kv"), 100 * number("score"), 100 * number("error")
	n = numbers("by_depth", c)
	for (i = 1; i <= 5; i++)
		printf " %s |", i <= n && c[i] != "null" ? sprintf("%.0f", 100 * c[i]) : ""
	printf " %d |\n", number("n")
}

# The depths come in the same order for every sample.
part == "needle" {
	n = numbers("depths", d); numbers("scores", c)
	for (many = 1; many < n && d[many + 1] > d[many]; many++)
		continue
	if (!needles++) {
		printf "| tokens | policy | all |"
		for (i = 1; i <= many; i++)
			printf " at %.0f %% |", 100 * d[i]
		printf " samples |\n|---|---|---|"
		for (i = 0; i <= many; i++)
			printf "---|"
		printf "\n"
	}
	printf "| %d | `%s` | %.1f ± %.1f |", number("len"), text("kv"), 100 * number("score"), 100 * number("error")
	for (i = 1; i <= many; i++) {
		at = 0
		for (k = i; k <= n; k += many)
			at += c[k]
		printf " %.0f |", 100 * at * many / n
	}
	printf " %d |\n", n
}

part == "speed" && text("test") == "turns" {
	kv = text("kv"); depth = number("depth")
	remember(kv, "kv"); remember(depth, "depth")
	tps[kv, depth] = number("tps"); bytes[kv, depth] = number("bytes_per_token"); threads = number("threads")
	own[kv, depth] = number("of_shallow"); full[kv, depth] = number("of_first")
}
part == "speed" && text("test") == "bandwidth" && !gbps { gbps = number("gbps") }
function speed_table(   k, d, kv, depth) {
	printf "Memory read bandwidth %.1f GB/s, %d threads.\n\n| policy |", gbps, threads
	for (d = 1; d <= number_of["depth"]; d++)
		printf " %d |", ordered("depth", d)
	printf " MB at the deepest | of its own speed at %d | times full |\n|---|", ordered("depth", 1)
	for (d = 1; d <= number_of["depth"] + 3; d++)
		printf "---|"
	printf "\n"
	depth = ordered("depth", number_of["depth"])
	for (k = 1; k <= number_of["kv"]; k++) {
		kv = ordered("kv", k)
		printf "| `%s` |", kv
		for (d = 1; d <= number_of["depth"]; d++)
			printf " %.1f |", tps[kv, ordered("depth", d)]
		printf " %.1f | %.0f %% | %.2f |\n", bytes[kv, depth] / 1e6, 100 * own[kv, depth], full[kv, depth]
	}
}

END {
	if (part == "stream" || part == "cascade") stream_table()
	if (part == "cascade") span_table()
	if (part == "last") last_table()
	if (part == "recovery") recovery_table()
	if (part == "ruler" || part == "pools") ruler_table()
	if (part == "speed") speed_table()
}
