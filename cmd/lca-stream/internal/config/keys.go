package config

import (
	"math"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Key is one row of the table: everything there is to know of one setting.
type Key struct {
	Path    string // such as lca.gamma
	Default string // as it would stand in the file
	Why     string // one line: what it does, and when to change it
	value
}

// Choices returns the values of a setting that has few of them; nil: it has many.
func (k Key) Choices() []string {
	switch v := k.value.(type) {
	case *oneOfValue:
		return v.names
	case *boolValue:
		return []string{"true", "false"}
	}
	return nil
}

const (
	trillion = 1_000_000_000_000
	billion  = 1_000_000_000
	day      = 24 * time.Hour
)

// Keys is the table, in the order of the file, its values bound to c.
func Keys(c *Config) []Key {
	var all []Key
	for _, section := range []func(*Config) []Key{
		kafkaKeys, sourceKeys, minibatchKeys, valueKeys, modelKeys, learningKeys, publishKeys, transformKeys, serviceKeys,
	} {
		all = append(all, section(c)...)
	}
	for i, k := range all {
		if keyed, ok := keyedDefaults[k.Path]; ok {
			all[i].Why += " With model.by the default is " + keyed + "."
		}
	}
	return all
}

// keyedDefaults are the defaults that differ where each value has a model of its own: of thousands of models each must be
// small, and saved seldom.
var keyedDefaults = map[string]string{
	"lca.neighbours": "500",
	"snapshot.every": "1m",
}

func kafkaKeys(c *Config) []Key {
	k, t, s, o := &c.Kafka, &c.Kafka.TLS, &c.Kafka.SASL, &c.Kafka.SASL.OAuth
	return []Key{
		{"kafka.brokers", "[localhost:9092]", "Addresses to begin with; the cluster tells the rest. A scalar is split at commas.", &listValue{&k.Brokers, address, 1}},
		{"kafka.tls.enabled", "false", "Encrypt the connection.", &boolValue{&t.Enabled}},
		{"kafka.tls.ca_file", `""`, "PEM file of the authorities that may sign the brokers' certificates; empty: the system's. They may sign that of kafka.sasl.oauth.token_url, too.", text(&t.CAFile, filePath)},
		{"kafka.tls.cert_file", `""`, "PEM file of the client's certificate, for brokers that ask for one (mTLS).", text(&t.CertFile, filePath)},
		{"kafka.tls.key_file", `""`, "PEM file of the key of cert_file.", text(&t.KeyFile, filePath)},
		{"kafka.sasl.mechanism", "none", "How to log in.", oneOf(&s.Mechanism, kafkaconn.Mechanisms()...)},
		{"kafka.sasl.username", `""`, "User to log in as.", text(&s.Username, anyText)},
		{"kafka.sasl.password", `""`, "Its password; better ${VAR}, or password_file.", &secretValue{&s.Password}},
		{"kafka.sasl.password_file", `""`, "File that holds the password, such as a mounted secret; one line ending is taken off.", text(&s.PasswordFile, filePath)},
		{"kafka.sasl.oauth.token_url", `""`, "Of oauthbearer: the token endpoint of the OAuth 2.0 server, https://…. A token is asked for by client_credentials, and again before it ends.", text(&o.TokenURL, tokenURL)},
		{"kafka.sasl.oauth.client_id", `""`, "Name of this program there.", text(&o.ClientID, anyText)},
		{"kafka.sasl.oauth.client_secret", `""`, "Its secret; better ${VAR}, or client_secret_file.", &secretValue{&o.ClientSecret}},
		{"kafka.sasl.oauth.client_secret_file", `""`, "File that holds the secret, such as a mounted one; read for each token, one line ending is taken off.", text(&o.ClientSecretFile, filePath)},
		{"kafka.sasl.oauth.scopes", "[]", "What the token is for; empty: what the server gives.", &listValue{&o.Scopes, someText, 0}},
		{"kafka.sasl.oauth.extensions", "[]", "NAME=VALUE that brokers ask for besides the token, such as logicalCluster=lkc-1.", &listValue{&o.Extensions, someText, 0}},
	}
}

func sourceKeys(c *Config) []Key {
	s, r := &c.Source, &c.Source.Registry
	return []Key{
		{"source.topic", "events", "Topic of the records to learn from and to whiten. A message of more than 16MiB is unusable (see dead_letter).", text(&s.Topic, topic)},
		{"source.group", "lca-stream", "Group under which the transform commits its input offsets; the learner commits under <group>.learn.", text(&s.Group, someText)},
		{"source.start_offset", "earliest", "Where a group begins that has never begun; resolved once. Partitions that are added later begin at earliest.", oneOf(&s.StartOffset, StartEarliest, StartLatest)},
		{"source.partitions", "[]", "The only partitions to work on, without a group's rebalances; another process that works on one of them takes it over. Empty: the consumer group divides them.", &partitionsValue{&s.Partitions}},
		{"source.format", "auto", "Format of the input values; auto tells it by the first bytes of each.", oneOf(&s.Format, format.Names()...)},
		{"source.schema_file", `""`, "Avro schema (.avsc) of values that name none, with source.format avro. Empty: each names its schema in the registry.", text(&s.SchemaFile, filePath)},
		{"source.features", "[]", "Numeric columns in order, or one list column; empty: chosen from the first message, without labels, ids, times and constants (`init` and `inspect` say which). The model keeps them.", &listValue{&s.Features, feature, 0}},
		{"source.on_invalid", `"null"`, "A row with a null, NaN or Inf feature, or with text in one (JSON, unions): keep it with a null result, dead-letter its message, stop, or impute: fill what is null, text or NaN by its conditional mean under the model, said in column <column>_imputed; a row with Inf then has a null result. It is never learnt.", oneOf(&s.OnInvalid, reject.OnInvalids()...)},
		{"source.on_gap", "stop", "Records that retention has deleted before they were read: stop, or skip them, counted in lca_records_passed_total. The learner of `run` passes over what the transform has read either way, counted in lca_learner_gap_records_total.", oneOf(&s.OnGap, Stop, Skip)},
		{"source.registry.url", `""`, "Schema registry of values that name their schema by an id, after a byte 0: http(s)://HOST:PORT and the path of Confluent's API, such as /apis/ccompat/v7. Empty: such values are unusable.", text(&r.URL, registryURL)},
		{"source.registry.username", `""`, "User to log in as; empty: no login.", text(&r.Username, anyText)},
		{"source.registry.password", `""`, "Its password; better ${VAR}, or password_file.", &secretValue{&r.Password}},
		{"source.registry.password_file", `""`, "File that holds the password, such as a mounted secret; one line ending is taken off.", text(&r.PasswordFile, filePath)},
		{"source.registry.ca_file", `""`, "PEM file of the authorities that may sign the registry's certificate; empty: the system's.", text(&r.CAFile, filePath)},
	}
}

func minibatchKeys(c *Config) []Key {
	return []Key{
		{"minibatch.rows", "100", "B of γ^(B/n): rows of each step of the learner. Larger is smoother and cheaper per row, smaller follows sooner.", whole(&c.Minibatch.Rows, 1, 100_000)},
	}
}

// valueKeys are those of a model for each value.
func valueKeys(c *Config) []Key {
	m := &c.Model
	return []Key{
		{"model.by", "none", "One model for all rows, or one for each value: of the message's key, of a header, or of a column of text, integers or booleans. A value that comes in two partitions has a model in each.", &byValue{&m.By}},
		{"model.memory", "512MiB", "With model.by: most that the models in memory take, in the learner and in the transform alike; those least recently used are saved and read again when rows of theirs come. Not more than half of memory.limit.", &sizeValue{p: &m.Memory, low: 1 << 20, high: 512 << 30}},
		{"model.idle", "0s", "With model.by: a model of which no row comes for so long, by the times of its partition's records, is retired, and rows that come later begin another one; 0s: never. Longer than transforms may fall behind.", duration(&m.Idle, 0, 3650*day)},
	}
}

// autoNumber and autoWhole are the word for lca.Auto.
func autoNumber() word[float64] { return word[float64]{"auto", lca.Auto} }
func autoSize() []word[int]     { return []word[int]{{"auto", 0}} }
func autoWhole() word[int]      { return word[int]{"auto", lca.Auto} }

func modelKeys(c *Config) []Key {
	m := &c.LCA
	return []Key{
		{"lca.model", "auto", "lca: every direction is Parzen; lca_gauss: structureless directions are split off as Gaussian; lca_gauss_red: with a search for the split in the background; auto: lca_gauss with this search.", oneOf(&m.Model, online.Kinds()...)},
		{"lca.metric", "full", "Family of the local covariance; low_rank with its rank behind a colon, below the number of features.", &metricValue{&m.Metric}},
		{"lca.preset", "metric", "What auto means: metric for clustering and neighbours (ν = 0.1), density for scores (ν = 0.01, a longer warm-up, more patience with what may be a fault; ν, its unit, the kernel, and whether a single Gaussian is as good, are then chosen by the data).", oneOf(&m.Preset, lca.Presets()...)},
		{"lca.nu", "auto", "ν added to C_L: larger trusts small variances less. Of two numbers the second is added to C_G. auto: by preset; with density one of 0.001, 0.01 and 0.1, by the data.", &nuValue{&m.Nu}},
		{"lca.nu_unit", "auto", "relative: ν of each column's variance; covariance: ν of the rows' covariance C_G, so that scores see thin directions and do not depend on the basis; absolute: squared units of the input, without column scaling; auto: with preset density chosen by the data, and covariance until then; with metric relative, unless the search finds few Parzen directions with covariance.", oneOf(&m.NuUnit, lca.Units()...)},
		{"lca.kernel", "auto", "Kernel around each neighbour. gaussian; student: Student's t with 4 degrees of freedom, for heavy tails and outliers that belong to the data, whose pull it bounds; auto: with preset density chosen by the data, and gaussian until then; gaussian with metric.", oneOf(&m.Kernel, lca.Kernels()...)},
	}
}

func learningKeys(c *Config) []Key {
	m := &c.LCA
	return []Key{
		{"lca.gamma", "0.6", "γ of C_L ← γ^(B/n) C_L + (1−γ^(B/n)) Ĉ_L: what a pass of n rows leaves of the old; 0 forgets all.", &realValue{p: &m.Gamma, low: 0, high: 1}},
		{"lca.pass_rows", "auto", "n of γ^(B/n), rows; auto grows with the rows learnt, a number is the paper's rule.", whole(&m.PassRows, 1, billion, autoWhole())},
		{"lca.neighbours", "3000", "Rows in the pool from which the density is made; at least 10 per feature is advised. Cost grows with it.", whole(&m.Neighbours, 2, 1_000_000)},
		{"lca.warmup_rows", "auto", "Rows before the first update; auto: max(4·d, 200), with preset density twice as many or d + 500, whichever is less; where rows are autocorrelated, more: by the time gap of the slowest feature, up to neighbours.", whole(&m.WarmupRows, 2, billion, autoWhole())},
		{"lca.outlier_gate", "auto", "Squared kernel distance to the nearest neighbour, or to the mean over the Gaussian directions, beyond which a row is whitened but not learnt; auto: by the score instead, beyond what 1 in 2000 rows like the neighbours would have.",
			&realValue{p: &m.OutlierGate, low: 0, high: math.Inf(1), open: true, words: []word[float64]{autoNumber(), {"off", math.Inf(1)}}}},
		{"lca.accept_after", "auto", "For how long a series must be unusual until that is its new normal and is learnt: hours by its stamps (168h), or rows (1000 rows); until then its rows are held back. never: only what someone accepts. auto: 1000 rows, with preset density 168h. In a file: rows; auto: as many as the warm-up's, with preset density max(1000, min(100·d, neighbours)).", &acceptValue{&m.AcceptAfter}},
		{"lca.skip_when_behind", "true", "Learn from a subsample when rows come faster than they are learnt.", &boolValue{&m.SkipWhenBehind}},
	}
}

func publishKeys(c *Config) []Key {
	s, k := &c.Snapshot, &c.Checkpoint
	return []Key{
		{"snapshot.topic", "lca-snapshots", "Compacted topic to which the model is published, of one partition; with model.by of as many as the source.", text(&s.Topic, topic)},
		{"snapshot.model_id", "default", "Name of the model: several can share the topic.", text(&s.ModelID, modelName)},
		{"snapshot.every_rows", "10000", "Rows learnt between two snapshots; 0: only by time. An alarm of the learner makes one as well.", whole(&s.EveryRows, 0, trillion)},
		{"snapshot.every", "10s", "Publish at least so often while rows come; 0s: by rows alone.", duration(&s.Every, 0, day)},
		{"checkpoint.topic", "lca-checkpoints", "Compacted topic of the learner's state, written with its input offsets in one transaction, of one partition; with model.by of as many as the source. Transforms keep a mark there of where they began.", text(&k.Topic, topic)},
	}
}

func transformKeys(c *Config) []Key {
	t := &c.Transform
	return []Key{
		{"transform.topic", "whitened", "Topic of the whitened rows; it has as many partitions as the source.", text(&t.Topic, topic)},
		{"transform.format", "input", "What each output is. input: as its message came, with our columns or keys added; json: the text of a message that is JSON, or else objects; arrow; or avro, which needs one row per message and source.registry.url. Schemas are registered under <topic>-value.", oneOf(&t.Format, encode.Formats()...)},
		{"transform.components", "all", "all; parzen alone: the paper's unsupervised dimension reduction; or weighted: each direction by √(1−e), for neighbours in many columns of noise.", oneOf(&t.Components, lca.AllComponents()...)},
		{"transform.score", "true", "Add −log p(x) in nats, as column <column>_score, and the probability of a score at least as high, among rows like the model's neighbours, as column <column>_p. false: nothing is scored, which saves most of the time, and the page knows no unusual rows.", &boolValue{&t.Score}},
		{"transform.recent", "auto", "Score the last rows of each series, taken together, as columns <column>_recent_score and <column>_recent_p: most faults are stretches of rows each of which could be normal. auto: with up to 192 features, from the first model on that has learnt enough; off: no such columns, nothing is learnt for them, and no topic is needed.", oneOf(&t.Recent, RecentAuto, RecentOff)},
		{"transform.series", "auto", "Which rows are a series: those with one value of the message's key, of a header, or of a column, or all of a partition. auto: with model.by those of one model, and otherwise those of a partition.", &seriesValue{&t.Series}},
		{"transform.state_topic", `""`, "Compacted topic with what is kept of each series, in the transaction of its rows; it has as many partitions as the source. Empty: <transform.topic>-state.", text(&t.StateTopic, maybe)},
		{"transform.why", "0", "Number of features that column <column>_why names for each row, those that make its score as high as it is first, with the nats that each costs; about doubles the time of scoring. 0: no such column.", whole(&t.Why, 0, 65536)},
		{"transform.layout", "vector", "One fixed-size list column, or one column a coordinate.", oneOf(&t.Layout, encode.Layouts()...)},
		{"transform.column", "lca", "Name of the result: <column>, or <column>_0, <column>_1, … with layout columns.", text(&t.Column, someText)},
		{"transform.passthrough", "true", "Keep the columns of the input.", &boolValue{&t.Passthrough}},
		{"transform.until_model", "auto", "Before the first model, or a young one that scores the last rows alone: hold (consume nothing), pass_through (null results), or drop; auto: hold, or pass_through with model.by, where a value without a model must not hold up the others.", oneOf(&t.UntilModel, transform.UntilModels()...)},
		{"transform.pin_version", "0", "Use this version of the model alone; 0: always the newest.", whole(&t.PinVersion, 0, math.MaxInt64)},
	}
}

func serviceKeys(c *Config) []Key {
	d, h, l := &c.DeadLetter, &c.HTTP, &c.Logger
	return []Key{
		{"dead_letter.topic", `""`, "Topic to which unusable messages go untouched, with the reason in headers, or cut where the topic does not take the whole; empty: stop at the first.", text(&d.Topic, maybe)},
		{"dead_letter.max_rejects", "100", "Most rejects among the last 1000 messages; more stop the process, because the stream has gone bad. 1000: go on whatever comes.", whole(&d.MaxRejects, 0, reject.Window)},
		{"alarms.topic", `""`, "Topic of events that an operator should know of, as JSON, each in the transaction of what it is about: episodes in which a series is unusual (with transform.recent), the stream has changed, a former regime has returned. Rows of the output then say of which episode they are, as column <column>_episode. Empty: no episode is told, and the others are only logged and counted.", text(&c.Alarms.Topic, maybe)},
		{"alarms.budget", "1/day", "False episodes that you can live with, of the whole pipeline: N/hour, N/day, N/week, N/M days such as 1/30 days, or N/M rows such as 1/2000 rows. The only threshold: a lower one misses more.", &budgetValue{&c.Alarms.Budget}},
		{"memory.limit", "auto", "Most that the process may take; buffers are shares of it. auto: the container's limit, or half of the machine's memory. A ceiling, not a budget to fill: little is in use while little is to do. GOMEMLIMIT follows it unless it is set.", &sizeValue{p: &c.Memory.Limit, low: 64 << 20, high: 512 << 30, words: autoSize()}},
		{"http.listen", "127.0.0.1:8095", "Address of the status page, probes and metrics; empty: no server.", text(&h.Listen, listen)},
		{"http.allowed_hosts", "[]", "Names under which it may be asked, such as a proxy's, in addition to its own and those of private networks; '*': any.", &listValue{&h.AllowedHosts, hostName, 0}},
		{"http.debug_endpoints", "false", "Serve /debug/pprof and /debug/config (secrets masked).", &boolValue{&h.DebugEndpoints}},
		{"logger.level", "info", "Least level that is logged.", oneOf(&l.Level, Levels()...)},
	}
}
