package config

import (
	"fmt"
	"log/slog"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// clientID is the name under which brokers log this program, and by which its group knows members that are no others. It is one name, because
// quotas can go by user, and what tells pipelines apart are their groups.
const clientID = "lca-stream"

// Cluster is the connection to the brokers; log is where its trouble is said.
func (c *Config) Cluster(log *slog.Logger) kafkaconn.Config {
	t, s, o := c.Kafka.TLS, c.Kafka.SASL, c.Kafka.SASL.OAuth
	var brokers kafkaconn.TLS
	if t.Enabled {
		brokers = kafkaconn.TLS{Enabled: true, CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile}
	}
	return kafkaconn.Config{
		Brokers:  c.Kafka.Brokers,
		ClientID: clientID,
		Log:      log,
		TLS:      brokers,
		SASL: kafkaconn.SASL{
			Mechanism: s.Mechanism, Username: s.Username, Password: string(s.Password), PasswordFile: s.PasswordFile,
			OAuth: kafkaconn.OAuth{
				TokenURL: o.TokenURL, ClientID: o.ClientID, ClientSecret: string(o.ClientSecret), ClientSecretFile: o.ClientSecretFile,
				Scopes: o.Scopes, CAFile: t.CAFile, Extensions: o.Extensions,
			},
		},
	}
}

// SchemaRegistry is the connection to the schema registry; ok is false if there is none. log is where its trouble is said,
// and changed is called with it.
func (c *Config) SchemaRegistry(log *slog.Logger, changed func(error)) (settings registry.Config, ok bool) {
	r := c.Source.Registry
	return registry.Config{
		URL: r.URL, Username: r.Username, Password: string(r.Password), PasswordFile: r.PasswordFile, CAFile: r.CAFile,
		Log: log, Changed: changed,
	}, r.URL != ""
}

// Learner is the configuration of a learner of dim features. A fault here is one that needs dim,
// such as a rank that is too large. What has no setting is the library's default, with which docs/quality.md was measured.
func (c *Config) Learner(dim int) (online.Config, error) {
	m, l := &c.LCA, online.DefaultConfig(dim)
	l.Kind, l.Metric, l.Preset, l.NuUnit = m.Model, m.Metric.Family(), m.Preset, m.NuUnit
	l.Kernel = m.Kernel
	l.Components = c.Transform.Components
	l.Rank, l.Nu, l.NuGaussian = m.Metric.Rank(), m.Nu[0], m.Nu[1]
	l.Gamma, l.PassRows = m.Gamma, m.PassRows
	l.Minibatch, l.Neighbours = c.Minibatch.Rows, m.Neighbours
	l.WarmupRows, l.OutlierGate = m.WarmupRows, m.OutlierGate
	l.Recent = c.Transform.Recent != RecentOff
	m.AcceptAfter.learner(&l)
	if err := l.Validate(); err != nil {
		return online.Config{}, fmt.Errorf("configuration section lca, with %d features: %w", dim, err)
	}
	return l, nil
}
