package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// validate checks every value against its range, then the values against each other.
func (d *decoder) validate() {
	for _, k := range d.keys {
		if d.bad[k.Path] {
			continue
		}
		if err := k.check(); err != nil {
			d.wrong(k.Path, d.placeFor(k.Path, err), err)
		}
	}
	d.validateKafka()
	d.validateSource()
	d.validateTopics()
	d.validateLearning()
	d.validatePublishing()
	d.validateKeyed()
}

// clash reports that values do not go together, at the first of the paths that was given. It says
// nothing when one of them is faulty by itself.
func (d *decoder) clash(message, remedy string, paths ...string) {
	for _, path := range paths {
		if d.bad[path] {
			return
		}
	}
	for _, path := range paths {
		if at, ok := d.places[path]; ok {
			d.faults = append(d.faults, at.fault(path, message, remedy))
			return
		}
	}
	d.faults = append(d.faults, Fault{File: defaultFile, Path: paths[0], Message: message, Remedy: remedy})
}

func (d *decoder) validateKafka() {
	t, s := &d.config.Kafka.TLS, &d.config.Kafka.SASL
	for _, option := range []struct {
		path string
		set  bool
	}{
		{"kafka.tls.ca_file", t.CAFile != "" && s.Mechanism != kafkaconn.SASLOAuthBearer}, // its token endpoint has a certificate, too
		{"kafka.tls.cert_file", t.CertFile != ""}, {"kafka.tls.key_file", t.KeyFile != ""},
	} {
		if option.set && !t.Enabled {
			d.clash("is set, but TLS is off", "set kafka.tls.enabled: true, or remove this", option.path)
		}
	}
	if t.Enabled && t.CertFile != "" && t.KeyFile == "" {
		d.clash("has no key_file with it", "a client's certificate needs its key: set kafka.tls.key_file", "kafka.tls.cert_file")
	}
	if t.Enabled && t.KeyFile != "" && t.CertFile == "" {
		d.clash("has no cert_file with it", "a client's key needs its certificate: set kafka.tls.cert_file", "kafka.tls.key_file")
	}
	d.validateLogin(s)
}

func (d *decoder) validateLogin(s *SASL) {
	if s.Mechanism == kafkaconn.SASLOAuthBearer {
		d.validateOAuth(s)
		return
	}
	if o := &s.OAuth; o.TokenURL != "" || o.ClientID != "" || o.ClientSecret != "" || o.ClientSecretFile != "" {
		d.clash("is set, but kafka.sasl.mechanism is "+string(s.Mechanism), "set kafka.sasl.mechanism to oauthbearer", "kafka.sasl.oauth.token_url", "kafka.sasl.oauth.client_id", "kafka.sasl.oauth.client_secret", "kafka.sasl.oauth.client_secret_file")
	}
	password := s.Password != "" || s.PasswordFile != ""
	switch {
	case s.Mechanism == kafkaconn.SASLNone && (s.Username != "" || password):
		d.clash("is set, but kafka.sasl.mechanism is none", "set kafka.sasl.mechanism to plain, scram_sha_256 or scram_sha_512", "kafka.sasl.username", "kafka.sasl.password", "kafka.sasl.password_file", "kafka.sasl.mechanism")
	case s.Mechanism != kafkaconn.SASLNone && s.Username == "":
		d.clash("needs a user", "set kafka.sasl.username", "kafka.sasl.mechanism", "kafka.sasl.username")
	case s.Mechanism != kafkaconn.SASLNone && !password:
		d.clash("needs a password", "set kafka.sasl.password_file, or kafka.sasl.password: ${VAR}", "kafka.sasl.mechanism", "kafka.sasl.password", "kafka.sasl.password_file")
	}
	if s.Password != "" && s.PasswordFile != "" {
		d.clash("is set together with kafka.sasl.password", "keep one of the two", "kafka.sasl.password_file", "kafka.sasl.password")
	}
}

func (d *decoder) validateOAuth(s *SASL) {
	o := &s.OAuth
	switch {
	case s.Username != "" || s.Password != "" || s.PasswordFile != "":
		d.clash("is of no use to oauthbearer", "remove it: the client is kafka.sasl.oauth.client_id", "kafka.sasl.username", "kafka.sasl.password", "kafka.sasl.password_file")
	case o.TokenURL == "":
		d.clash("needs a token endpoint", "set kafka.sasl.oauth.token_url", "kafka.sasl.mechanism", "kafka.sasl.oauth.token_url")
	case o.ClientID == "":
		d.clash("needs a client", "set kafka.sasl.oauth.client_id", "kafka.sasl.mechanism", "kafka.sasl.oauth.client_id")
	case o.ClientSecret == "" && o.ClientSecretFile == "":
		d.clash("needs a secret", "set kafka.sasl.oauth.client_secret_file, or kafka.sasl.oauth.client_secret: ${VAR}", "kafka.sasl.mechanism", "kafka.sasl.oauth.client_secret", "kafka.sasl.oauth.client_secret_file")
	case o.ClientSecret != "" && o.ClientSecretFile != "":
		d.clash("is set together with kafka.sasl.oauth.client_secret", "keep one of the two", "kafka.sasl.oauth.client_secret_file", "kafka.sasl.oauth.client_secret")
	}
}

func (d *decoder) validateSource() {
	s := &d.config.Source
	d.validateRegistry(&s.Registry)
	if s.SchemaFile != "" && s.Format != string(format.Avro) {
		d.clash("is set, but source.format is "+s.Format, "set source.format: avro, or remove this", "source.schema_file", "source.format")
	}
	switch f := d.config.Transform.Format; {
	case s.SchemaFile != "" && s.Format == string(format.Avro) && (f == encode.FormatInput || f == encode.FormatAvro):
		d.clash("values that name no schema cannot come out as Avro, and transform.format is "+f.String(), "set transform.format to json or arrow", "source.schema_file", "transform.format")
	case f == encode.FormatAvro && s.Registry.URL == "":
		d.clash("avro needs a schema registry, which gives each output the id of its schema", "set source.registry.url, or set transform.format to json or arrow", "transform.format", "source.registry.url")
	}
	if s.OnInvalid == reject.RejectRow && d.config.DeadLetter.Topic == "" {
		d.clash("dead_letter needs a topic to write to", "set dead_letter.topic", "source.on_invalid", "dead_letter.topic")
	}
}

func (d *decoder) validateRegistry(r *Registry) {
	if password := r.Password != "" || r.PasswordFile != ""; r.URL == "" && (r.Username != "" || password || r.CAFile != "") {
		d.clash("is set, but there is no registry", "set source.registry.url, or remove this", "source.registry.username", "source.registry.password", "source.registry.password_file", "source.registry.ca_file")
	} else if (r.Username != "") != password {
		d.clash("needs both a user and a password", "set source.registry.username and source.registry.password_file", "source.registry.username", "source.registry.password", "source.registry.password_file")
	}
	if r.Password != "" && r.PasswordFile != "" {
		d.clash("is set together with source.registry.password", "keep one of the two", "source.registry.password_file", "source.registry.password")
	}
}

// validateTopics: two roles in one topic would feed the program its own output, or compact it away.
func (d *decoder) validateTopics() {
	c := d.config
	seen := map[string]string{}
	for _, t := range []struct{ path, topic string }{
		{"source.topic", c.Source.Topic}, {"transform.topic", c.Transform.Topic}, {"snapshot.topic", c.Snapshot.Topic},
		{"checkpoint.topic", c.Checkpoint.Topic}, {"dead_letter.topic", c.DeadLetter.Topic},
		{"alarms.topic", c.Alarms.Topic}, {"transform.state_topic", c.StateTopic()},
	} {
		if t.topic == "" {
			continue
		}
		if other, twice := seen[t.topic]; twice {
			d.clash(fmt.Sprintf("%q is %s too", t.topic, other), "give each its own topic", t.path, other)
			continue
		}
		seen[t.topic] = t.path
	}
	if states := c.StateTopic(); len(states) > topic.max {
		d.clash(fmt.Sprintf("names the topic of states, too, and %d letters are too many: at most %d", len(states), topic.max), "set transform.state_topic", "transform.topic", "transform.state_topic")
	}
}

func (d *decoder) validateLearning() {
	m := &d.config.LCA
	n := len(d.config.Source.Features) // one may be a list, of which nothing is known here
	if rank := m.Metric.Rank(); n > 1 && rank >= n {
		d.clash(fmt.Sprintf("the rank %d is not below the number of features, %d", rank, n), "a full rank is lca.metric: full", "lca.metric", "source.features")
	}
	if least, _, _ := checkpoint.CheckpointBytes(m.Neighbours, n); least > checkpoint.CheckpointLimit {
		d.clash(fmt.Sprintf("a checkpoint of %d neighbours of %d features takes more than %d bytes, and %d is the most", m.Neighbours, n, least, checkpoint.CheckpointLimit),
			"set fewer lca.neighbours, or name fewer features", "lca.neighbours", "source.features")
	}
}

func (d *decoder) validatePublishing() {
	c := d.config
	if c.Snapshot.EveryRows == 0 && c.Snapshot.Every == 0 {
		d.clash("no snapshot would ever be published: every_rows and every are both off", "set snapshot.every, such as 10s", "snapshot.every_rows", "snapshot.every")
	}
	if name := c.Transform.Series.By().ColumnName(); name != "" && slices.Contains(c.Source.Features, name) {
		d.clash(fmt.Sprintf("%q says which series a row belongs to, and is among source.features", name), "remove it from source.features", "transform.series", "source.features")
	}
	for _, f := range c.Source.Features {
		if c.Transform.Passthrough && (f == c.Transform.Column || f == c.Transform.Column+"_score" || strings.HasPrefix(f, c.Transform.Column+"_") && c.Transform.Layout == encode.LayoutColumns) {
			d.clash(fmt.Sprintf("%q would be written next to the input's column %q", c.Transform.Column, f), "choose another transform.column, or passthrough: false", "transform.column", "source.features", "transform.passthrough")
		}
	}
}

// UntilModel returns what becomes of records before there is a model, with auto resolved.
func (c *Config) UntilModel() transform.UntilModel {
	return c.Transform.UntilModel.Resolve(c.Model.By.Keyed())
}

// Series is the value by which rows are a series; none: they are those of a partition.
func (c *Config) Series() modelkey.By {
	if c.Model.By.Keyed() {
		return c.Model.By
	}
	return c.Transform.Series.By()
}

// StateTopic is the topic of the states of series; "" where there are none.
func (c *Config) StateTopic() string {
	if c.Transform.Recent == RecentOff {
		return ""
	}
	return cmp.Or(c.Transform.StateTopic, c.Transform.Topic+"-state")
}

// Accepts reports whether a learner follows what people accept. Without transform.recent it holds nothing back, and there is nothing to be learnt.
func (c *Config) Accepts() bool {
	return c.Alarms.Topic != "" && c.Transform.Recent != RecentOff
}

// validateKeyed: what is said of one model has no meaning where each value has its own, and the reverse.
func (d *decoder) validateKeyed() {
	c := d.config
	by := c.Model.By
	if !by.Keyed() {
		if unset := Default().Model; c.Model.Memory != unset.Memory || c.Model.Idle != 0 {
			d.clash("is set, but model.by is none", "set model.by, or remove this", "model.idle", "model.memory")
		}
		return
	}
	if c.Transform.UntilModel == transform.Hold {
		d.clash("hold would hold up all values until each has a model, and model.by is "+by.String(), "set it to pass_through or drop, or remove it", "transform.until_model")
	}
	if c.Transform.PinVersion != 0 {
		d.clash("names a version of one model, and model.by is "+by.String(), "remove it: each model has versions of its own", "transform.pin_version")
	}
	if series := c.Transform.Series; series != SeriesAuto && series.By() != by {
		d.clash(fmt.Sprintf("is %v, and model.by is %v: what one model has learnt are the rows of one series", series, by), "remove it", "transform.series", "model.by")
	}
	if by.Place == modelkey.Column {
		d.validateColumn(by.Name)
	}
}

// validateColumn: the column that chooses the model is no feature, and has its own name in the output.
func (d *decoder) validateColumn(name string) {
	c := d.config
	if i := slices.Index(c.Source.Features, name); i >= 0 {
		d.clash(fmt.Sprintf("%q chooses the model, and is among source.features", name), "remove it from source.features: within a model it is constant", "model.by", "source.features")
	}
	for _, own := range []string{"_model", "_version"} {
		own = c.Transform.Column + own
		if c.Transform.Passthrough && (name == own || slices.Contains(c.Source.Features, own)) {
			d.clash(fmt.Sprintf("with model.by: column:%s the output has a column %q, as the input has", name, own), "choose another transform.column, or passthrough: false", "transform.column", "model.by", "source.features")
		}
	}
}
