// Package config is the configuration of lca-stream: one YAML file, read strictly.
//
// A Config starts from the defaults, is overlaid by the file, then by each --set, and is then
// validated as a whole. Every fault is reported, not only the first, each with its place, a caret
// under the offending text, and what to write instead:
//
//	stream.yaml:7:10: lca.gamma: 1.5 is out of range; want a number, at least 0 and below 1
//	   7 |   gamma: 1.5
//	     |          ^^^
//
// Start with Load; Default, Keys, Example, Print and Schema serve the config command and tests.
//
// The table in keys.go is the one description of every key: path, type, default, range and why.
// Decoding, validation, the annotated example, the JSON Schema and "did you mean" all come from it.
//
// Values may name environment variables as ${VAR} or ${VAR:default}; they are put in after the YAML
// is parsed, so that a value with ':' or '#' cannot change the structure. $${ stands for a plain ${.
package config

import "time"

// Config is the whole file. Fields are named as their keys are; each comment gives the meaning, the
// unit, the default and the bound. A test compares these with the table.
type Config struct {
	Kafka           Kafka
	Source          Source
	Minibatch       Minibatch
	LCA             LCA
	Snapshot        Snapshot
	Checkpoint      Checkpoint
	Transform       Transform
	DeadLetter      DeadLetter
	Memory          Memory
	HTTP            HTTP
	Logger          Logger
	ShutdownTimeout time.Duration // longest orderly stop after SIGTERM; default 30s; 1s … 1h
}

// Kafka says how the brokers are reached.
type Kafka struct {
	Brokers            []string      // bootstrap addresses host:port; default [localhost:9092]; at least 1
	ClientID           string        // name shown in the broker's logs and quotas; default lca-stream
	TransactionTimeout time.Duration // after which a broker aborts a transaction; default 45s; 1s … 15m
	RequestTimeout     time.Duration // longest wait for an answer while nothing moves; default 15s; 100ms … 5m
	TLS                TLS
	SASL               SASL
}

// TLS is the encryption of the connection.
type TLS struct {
	Enabled            bool   // speak TLS; default false
	CAFile             string // PEM file of the authorities to trust; default "" (the system's)
	CertFile           string // PEM file of the client's certificate; default "" (none)
	KeyFile            string // PEM file of the client's key; default "" (none)
	ServerName         string // name the broker's certificate must carry; default "" (the address)
	InsecureSkipVerify bool   // trust any certificate, for tests; default false
}

// SASL is the login.
type SASL struct {
	Mechanism    string // none, plain, scram_sha_256 or scram_sha_512; default none
	Username     string // user; default ""
	Password     Secret // password; default ""; this or PasswordFile
	PasswordFile string // file that holds the password; default ""
}

// Source is where rows come from.
type Source struct {
	Topic           string   // input topic; default events
	Group           string   // consumer group of the transform; the learner commits under <group>.learn; default lca-stream
	InstanceID      string   // name of this member of the group; default "" (derived from host and configuration); none: without a name
	StartOffset     string   // where a group begins that has never begun: earliest or latest; default earliest
	IsolationLevel  string   // read_committed or read_uncommitted; default read_committed
	Assignment      string   // group or static; default group
	Partitions      []int32  // partitions of a static assignment; default []
	Format          string   // auto, arrow or json; default auto
	Features        []string // numeric columns in order, or one list column; default [] (all numeric columns)
	OnInvalid       string   // what becomes of a row with a null, NaN or Inf feature: null, dead_letter or stop; default null
	OnGap           string   // what becomes of records that retention has deleted before they were read: stop or skip; default stop
	MaxMessageBytes int      // largest message taken, bytes; default 16MiB; 1KiB … 1GiB
}

// Minibatch is how rows are gathered for one step of the learner.
type Minibatch struct {
	Rows int // B of γ^(B/n), rows; default 100; 1 … 100000
}

// LCA is the model and how it is learnt.
type LCA struct {
	Model          string  // lca, lca_gauss or lca_gauss_red; default lca_gauss
	Metric         string  // full, diagonal, isotropic or low_rank; default full
	Rank           int     // rank of metric low_rank; default 0; 0 … 65536
	Preset         string  // metric or density: what auto means; default metric
	Nu             float64 // ν of the Parzen part, in NuUnit; lca.Auto = by preset; default auto; at least 0
	NuGaussian     float64 // ν of the Gaussian part, in NuUnit; lca.Auto = by preset; default auto; at least 0
	NuUnit         string  // auto, relative, covariance or absolute; default auto
	Gamma          float64 // γ of γ^(B/n); default 0.6; at least 0 and below 1
	PassRows       int     // n of γ^(B/n), rows; lca.Auto = grows with the rows learnt; default auto; 1 … 1000000000
	HalfLifeRows   int     // n given as a half-life, rows; default 0 (off); 0 … 1000000000
	Neighbours     int     // size of the pool, rows; default 3000; 2 … 1000000
	Pool           string  // auto, biased, sliding or reservoir; default auto
	TargetRows     int     // rows the kernel width is corrected to; default 0 (off); 0 … 1000000000000
	WarmupRows     int     // rows before the first update; lca.Auto = max(4·d, 200), twice as many with density; default auto; 2 … 1000000000
	InnerSteps     int     // EM steps per minibatch; lca.Auto = 2 at first, then 1; default auto; 1 … 100
	OutlierGate    float64 // squared kernel distance beyond which a row is not learnt; lca.Auto = ten standard deviations from the mean, +Inf = off; default auto; above 0
	NearCopies     bool    // leave near copies out of a row's neighbours; default true
	Drift          int     // rows that a change must last for; lca.Auto = by preset, 0 = off; default auto; 1 … 1000000000
	SkipWhenBehind bool    // subsample for learning when input outruns it; default true
	Precision      string  // float32 or float64, of the kernels; default float32
	Seed           uint64  // seed of the pool's choices; default 1; 0 … 9223372036854775807
}

// Snapshot is the published model.
type Snapshot struct {
	Topic     string        // compacted topic of snapshots; default lca-snapshots
	ModelID   string        // name of the model within the topic; default default
	EveryRows uint64        // rows learnt between snapshots; default 10000; 0 (off) … 1000000000000
	Every     time.Duration // longest time between snapshots while rows come; default 10s; 0s (off) … 24h
	Keep      int           // slots, that is versions kept; default 16; 1 … 10000
}

// Checkpoint is the learner's saved state.
type Checkpoint struct {
	Topic     string        // compacted topic of checkpoints; default lca-checkpoints
	EveryRows uint64        // rows learnt between checkpoints; default 50000; 0 (off) … 1000000000000
	Every     time.Duration // longest time between checkpoints while rows come; default 30s; 0s (off) … 24h
}

// Transform is the whitening of live rows.
type Transform struct {
	Topic       string        // output topic; default whitened
	Coordinates string        // aligned, components or symmetric; default aligned
	Components  string        // all or parzen; default all
	Score       bool          // add the column of −log p, nats; default true
	Layout      string        // vector or columns; default vector
	Column      string        // name of the output column; default lca
	Passthrough bool          // keep the input's columns; default true
	Compression string        // of produced batches: auto, none, gzip, snappy, lz4 or zstd; default auto
	UntilModel  string        // hold, pass_through or drop; default hold
	PinVersion  uint64        // use this model version alone; default 0 (the newest); 0 … 9223372036854775807
	MaxModelAge time.Duration // age at which the model counts as stale; default 0s (never); 0s … 8760h
	OnStale     string        // warn or stop; default warn
}

// DeadLetter is where unusable messages go.
type DeadLetter struct {
	Topic       string // topic of unusable messages; default "" (stop at the first)
	Window      int    // messages over which rejects are counted; default 1000; 1 … 1000000
	MaxRejects  int    // most rejects in the window; default 100; 0 … 1000000
	OnThreshold string // stop or warn; default stop
	OnTooLarge  string // a dead letter that its topic does not take: cut or stop; default cut
}

// Memory is what the process may take.
type Memory struct {
	Limit int // bytes; default auto (the container's limit, or half of the machine's memory); 64MiB … 512GiB
}

// HTTP is the status page, probes and metrics.
type HTTP struct {
	Listen         string   // host:port; default 127.0.0.1:8095; "" = no server
	AllowedHosts   []string // names under which it may be asked, besides its own; "*": any; default []
	DebugEndpoints bool     // serve /debug/pprof and /debug/config; default false
}

// Logger is the log on standard error.
type Logger struct {
	Level  string // debug, info, warn or error; default info
	Format string // auto, text or json; default auto
}

// Secret is text that never shows itself: fmt, slog and JSON see asterisks. Convert with string(s).
type Secret string

const mask = "********"

// String returns asterisks, or nothing where there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
