package config

// A setting had to earn its line: who sets it, when, and to what? These had no answer, and became constants; the constant's comment says why it
// has its value. A file or a --set that names one is at fault, whatever it says: what was meant by another value does not hold any more, and a line
// that changes nothing misleads its reader.

// gone says of a removed setting what holds now, and what to do instead of another value; "": nothing.
type gone struct{ now, instead string }

var removed = map[string]gone{
	"kafka.client_id":                {"it is always lca-stream now", "limit by user where brokers have quotas"},
	"kafka.request_timeout":          {"it is always 15s now, and more while bytes are on their way", ""},
	"kafka.sasl.oauth.ca_file":       {"the authorities of kafka.tls.ca_file and the system's may sign the certificate of the token endpoint now", "add its certificates to the file of kafka.tls.ca_file"},
	"kafka.tls.insecure_skip_verify": {"certificates are always verified now", "name the certificate, or that of its authority, in kafka.tls.ca_file"},
	"kafka.tls.server_name":          {"certificates must always carry the host of the broker's address now", "let advertised.listeners name a host that the certificate has"},
	"snapshot.keep":                  {"the last 16 versions are always kept now, with model.by the last 2 of each", "import a version that is to stay under a snapshot.model_id of its own"},
	"source.assignment":              {"it follows from source.partitions now: those that are named, or else by consumer group", ""},
	"source.instance_id":             {"it is always derived now, from host or pod, configuration and the processes that run there", ""},
	"source.max_message_bytes":       {"it is always 16MiB now", "let producers send smaller messages"},
	"source.isolation_level":         {"it is always read_committed now", ""},
	"dead_letter.window":             {"rejects are always counted over the last 1000 messages now", ""},
	"dead_letter.on_threshold":       {"it is always stop now", "set dead_letter.max_rejects: 1000 to go on however many there are"},
	"dead_letter.on_too_large":       {"it is always cut now", ""},
	"checkpoint.every":               {"a checkpoint goes with every snapshot now, and is written every 30s while there is none, or as seldom as snapshot.every says", "raise snapshot.every where saving costs too much"},
	"checkpoint.every_rows":          {"a checkpoint goes with every snapshot now, and is written every 50000 rows while there is none, or as seldom as snapshot.every_rows says", ""},
	"kafka.transaction_timeout":      {"it is always 45s now; what cannot be cut gets more on a slow link, and where the cluster allows less it is less", ""},
	"shutdown_timeout":               {"it is always 30s now", "give the process more than that before it is killed"},
	"lca.drift":                      {"lca.accept_after says for how long a change must last before it is the new normal", "set lca.accept_after: never for off, or such as 1000 rows"},
	"lca.near_copies":                {"near copies of a row are never among its neighbours now", ""},
	"lca.nu_gaussian":                {"it stands with lca.nu now", "write it there as the second: lca.nu: [0.01, 0.001]"},
	"lca.rank":                       {"it stands with lca.metric now", "write it there: lca.metric: low_rank:5"},
	"lca.half_life_rows":             {"the half-life is always given as lca.gamma and lca.pass_rows now", "set lca.gamma: 0.5, and lca.pass_rows to the half-life"},
	"lca.inner_steps":                {"it is always auto now", ""},
	"lca.precision":                  {"it is always float32 now, and means, covariances and factors are float64", ""},
	"lca.seed":                       {"it is always 1 now", ""},
	"lca.target_rows":                {"the kernel's width is always that of the pool's own rows now", "raise lca.neighbours for a sharper density"},
	"lca.pool":                       {"it is always auto now: the older a row, the rarer it is kept", "lower lca.neighbours for data that turn all the time"},
	"lca.time_gap":                   {"it is always auto now", ""},
	"logger.format":                  {"it is always text on a terminal and JSON elsewhere now", ""},
	"transform.compression":          {"it is always auto now", ""},
	"transform.coordinates":          {"it is always aligned now, to the version before", ""},
	"transform.max_delay":            {"it is always auto now: a transaction takes what came while the one before it ran", ""},
	"transform.max_model_age":        {"a model is used however old it is now", "watch lca_model_age_seconds; the chart has an alert for it"},
	"transform.on_stale":             {"a model is used however old it is now", "watch lca_model_age_seconds; the chart has an alert for it"},
	"alarms.p_below":                 {"episodes are told now, and no single rows", "set alarms.budget to the false episodes that you can live with; lca_p of each row is in the output"},
	"transform.p_value":              {"it is always as transform.score now, from which it is made", ""},
}

// fault says of a removed setting what holds now.
func (g gone) fault(at place, path string) Fault {
	instead := "remove this"
	if g.instead != "" {
		instead += "; where it had another value, " + g.instead
	}
	return at.fault(path, "was removed: "+g.now, instead)
}
