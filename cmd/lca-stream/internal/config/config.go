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

import (
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Config is the whole file. Fields are named as their keys are; a comment gives the meaning and the unit.
// Default and bound are in the table of keys.go, and nowhere else.
type Config struct {
	Kafka      Kafka
	Source     Source
	Minibatch  Minibatch
	Model      Model
	LCA        LCA
	Snapshot   Snapshot
	Checkpoint Checkpoint
	Transform  Transform
	DeadLetter DeadLetter
	Alarms     Alarms
	Memory     Memory
	HTTP       HTTP
	Logger     Logger
}

// Choice is one of a few names of a setting that no package on the left has a type for.
type Choice string

// The choices; the table says which are allowed where.
const (
	StartEarliest Choice = "earliest"
	StartLatest   Choice = "latest"
	Stop          Choice = "stop"
	Skip          Choice = "skip"
	RecentAuto    Choice = "auto"
	RecentOff     Choice = "off"
	LevelDebug    Choice = "debug"
	LevelInfo     Choice = "info"
	LevelWarn     Choice = "warn"
	LevelError    Choice = "error"
)

// Levels returns the levels of the log, the most talkative first.
func Levels() []Choice { return []Choice{LevelDebug, LevelInfo, LevelWarn, LevelError} }

// Kafka says how the brokers are reached.
type Kafka struct {
	Brokers []string // bootstrap addresses host:port
	TLS     TLS
	SASL    SASL
}

// TLS is the encryption of the connection.
type TLS struct {
	Enabled  bool   // speak TLS
	CAFile   string // PEM file of the authorities to trust; "": the system's
	CertFile string // PEM file of the client's certificate; "": none
	KeyFile  string // PEM file of the client's key; "": none
}

// SASL is the login.
type SASL struct {
	Mechanism    kafkaconn.Mechanism // how the user shows the password
	Username     string              // user
	Password     Secret              // password, unless PasswordFile is set
	PasswordFile string              // file that holds the password
	OAuth        OAuth               // of the mechanism oauthbearer
}

// OAuth says where the token of the mechanism oauthbearer comes from.
type OAuth struct {
	TokenURL         string   // token endpoint
	ClientID         string   // client
	ClientSecret     Secret   // its secret, unless ClientSecretFile is set
	ClientSecretFile string   // file that holds the secret
	Scopes           []string // what the token is for
	Extensions       []string // NAME=VALUE for the brokers
}

// Source is where rows come from.
type Source struct {
	Topic       string           // input topic
	Group       string           // consumer group of the transform; the learner commits under <group>.learn
	StartOffset Choice           // where a group begins that has never begun: StartEarliest or StartLatest
	Partitions  []int32          // the only partitions to work on; empty: those that the consumer group gives
	Format      string           // format of the input values, one of format.Names
	Features    []string         // numeric columns in order, or one list column; empty: chosen from the first message
	OnInvalid   reject.OnInvalid // what becomes of a row with a null, text, NaN or Inf feature
	OnGap       Choice           // what becomes of records that retention has deleted before they were read: Stop or Skip
	SchemaFile  string           // Avro schema of values that name none; "": each names its schema
	Registry    Registry
}

// Registry is the schema registry of the input's values and of those that are written.
type Registry struct {
	URL          string // address and path of Confluent's API; "": there is none
	Username     string // user; "": no login
	Password     Secret // password, unless PasswordFile is set
	PasswordFile string // file that holds the password
	CAFile       string // PEM file of the authorities to trust; "": the system's
}

// Minibatch is how rows are gathered for one step of the learner.
type Minibatch struct {
	Rows int // B of γ^(B/n), rows
}

// Model says which model a row belongs to.
type Model struct {
	By     modelkey.By   // where the value of a row is, by which it has a model of its own; the zero value: one model for all
	Memory int           // most that models in memory take, in each stage, bytes
	Idle   time.Duration // time without a row after which a model is retired; 0: never
}

// LCA is the model and how it is learnt.
type LCA struct {
	Model          lca.Kind   // model of the paper
	Metric         Metric     // family of the local covariance, with the rank of low_rank
	Preset         lca.Preset // what auto means
	Nu             [2]float64 // ν of the Parzen part and of the Gaussian part, in NuUnit; lca.Auto: by preset
	NuUnit         lca.Unit   // unit of Nu
	Kernel         lca.Kernel // shape of the kernels
	Gamma          float64    // γ of γ^(B/n)
	PassRows       int        // n of γ^(B/n), rows; lca.Auto: grows with the rows learnt
	Neighbours     int        // size of the pool, rows
	WarmupRows     int        // rows before the first update; lca.Auto: by the number of features and the preset
	OutlierGate    float64    // squared kernel distance beyond which a row is not learnt; lca.Auto: by the scores of the pool; +Inf: off
	AcceptAfter    Accept     // for how long a change must last before it is the new normal
	SkipWhenBehind bool       // subsample for learning when input outruns it
}

// Snapshot is the published model.
type Snapshot struct {
	Topic     string        // compacted topic of snapshots
	ModelID   string        // name of the model within the topic
	EveryRows uint64        // rows learnt between snapshots; 0: off
	Every     time.Duration // longest time between snapshots while rows come; 0: off
}

// Checkpoint is where the learner's state is saved.
type Checkpoint struct {
	Topic string // compacted topic of checkpoints
}

// Transform is the whitening of live rows.
type Transform struct {
	Topic       string               // output topic
	Format      encode.Format        // what the values of the output are
	Components  lca.Components       // which part of the metric the result carries
	Score       bool                 // add the column of −log p, nats
	Why         int                  // number of features that the column of guilty features names; 0: no such column
	Layout      encode.Layout        // how the result stands in a message
	Column      string               // name of the output column
	Passthrough bool                 // keep the input's columns
	Recent      Choice               // whether the last rows of series are scored: RecentAuto or RecentOff
	Series      Series               // which rows are a series
	StateTopic  string               // topic of the states of series; "": <topic>-state
	UntilModel  transform.UntilModel // what happens to records before there is a model
	PinVersion  uint64               // use this model version alone; 0: the newest
}

// DeadLetter is where unusable messages go.
type DeadLetter struct {
	Topic      string // topic of unusable messages; "": stop at the first
	MaxRejects int    // most rejects in the window
}

// Alarms is where events go that an operator should know of.
type Alarms struct {
	Topic  string         // topic of the events, as JSON; "": nowhere
	Budget episode.Budget // false episodes that the user can live with
}

// Memory is what the process may take.
type Memory struct {
	Limit int // most that the process may take, bytes; 0: the container's limit, or half of the machine's memory
}

// HTTP is the status page, probes and metrics.
type HTTP struct {
	Listen         string   // host:port; "": no server
	AllowedHosts   []string // names under which it may be asked, besides its own; "*": any
	DebugEndpoints bool     // serve /debug/pprof and /debug/config
}

// Logger is the log on standard error.
type Logger struct {
	Level Choice // least level that is logged: LevelDebug, LevelInfo, LevelWarn or LevelError
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
