package config

import (
	"fmt"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Cluster is the connection to the brokers.
func (c *Config) Cluster() kafkaconn.Config {
	t, s := c.Kafka.TLS, c.Kafka.SASL
	return kafkaconn.Config{
		Brokers:  c.Kafka.Brokers,
		ClientID: c.Kafka.ClientID,
		TLS: kafkaconn.TLS{
			Enabled: t.Enabled, CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile,
			ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify,
		},
		SASL: kafkaconn.SASL{Mechanism: s.Mechanism, Username: s.Username, Password: string(s.Password), PasswordFile: s.PasswordFile},
	}
}

// Learner is the configuration of a learner of dim features. A fault here is one that needs dim,
// such as a rank that is too large.
func (c *Config) Learner(dim int) (online.Config, error) {
	m, l := &c.LCA, online.DefaultConfig(dim)
	var err error
	parse := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	l.Kind, e = lca.ParseKind(m.Model)
	parse(e)
	l.Metric, e = lca.ParseMetric(m.Metric)
	parse(e)
	l.Preset, e = lca.ParsePreset(m.Preset)
	parse(e)
	l.NuUnit, e = lca.ParseUnit(m.NuUnit)
	parse(e)
	l.Pool, e = online.ParsePoolKind(m.Pool)
	parse(e)
	l.Precision, e = lca.ParsePrecision(m.Precision)
	parse(e)
	l.Coordinates, e = lca.ParseCoordinates(c.Transform.Coordinates)
	parse(e)
	l.Components, e = lca.ParseComponents(c.Transform.Components)
	parse(e)
	if err != nil {
		return online.Config{}, fmt.Errorf("config: internal error: %w", err) // the table allows only names that parse
	}
	l.Rank, l.Nu, l.NuGaussian = m.Rank, m.Nu, m.NuGaussian
	l.Gamma, l.PassRows, l.HalfLifeRows = m.Gamma, m.PassRows, m.HalfLifeRows
	l.Minibatch, l.Neighbours, l.TargetRows = c.Minibatch.Rows, m.Neighbours, m.TargetRows
	l.WarmupRows, l.InnerSteps, l.OutlierGate = m.WarmupRows, m.InnerSteps, m.OutlierGate
	l.NearCopies, l.Drift, l.Seed = m.NearCopies, m.Drift != 0, m.Seed
	if l.Drift {
		l.DriftRows = m.Drift
	}
	if err := l.Validate(); err != nil {
		return online.Config{}, fmt.Errorf("configuration section lca, with %d features: %w", dim, err)
	}
	return l, nil
}
