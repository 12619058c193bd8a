package config

// A setting had to earn its line: who sets it, when, and to what? These had no answer, and became constants; the constant's comment says why it
// has its value. A file or a --set that names one is at fault, whatever it says: what was meant by another value does not hold any more, and a line
// that changes nothing misleads its reader.

// gone says of a removed setting what holds now, and what to do instead; "": remove the line.
type gone struct{ now, instead string }

var removed = map[string]gone{
	"kafka.client_id":          {"it is always lca-stream now", "limit by user where brokers have quotas"},
	"kafka.request_timeout":    {"it is always 15s now, and more while bytes are on their way", ""},
	"kafka.tls.server_name":    {"certificates must always carry the host of the broker's address now", "let advertised.listeners name a host that the certificate has"},
	"source.isolation_level":   {"it is always read_committed now", ""},
	"dead_letter.window":       {"rejects are always counted over the last 1000 messages now", ""},
	"dead_letter.on_threshold": {"it is always stop now", "set dead_letter.max_rejects: 1000 to go on however many there are"},
	"dead_letter.on_too_large": {"it is always cut now", ""},
	"lca.half_life_rows":       {"the half-life is always given as lca.gamma and lca.pass_rows now", "set lca.gamma: 0.5, and lca.pass_rows to the half-life"},
	"lca.inner_steps":          {"it is always auto now", ""},
	"lca.precision":            {"it is always float32 now, and means, covariances and factors are float64", ""},
	"lca.seed":                 {"it is always 1 now", ""},
	"lca.target_rows":          {"the kernel's width is always that of the pool's own rows now", "raise lca.neighbours for a sharper density"},
	"logger.format":            {"it is always text on a terminal and JSON elsewhere now", ""},
}

// fault says of a removed setting what holds now.
func (g gone) fault(at place, path string) Fault {
	instead := "remove this"
	if g.instead != "" {
		instead += ", and " + g.instead
	}
	return at.fault(path, "was removed: "+g.now, instead)
}
