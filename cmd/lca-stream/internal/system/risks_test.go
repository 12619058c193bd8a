package system

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Each way to give the protection of secrets up is one, and a configuration that keeps it has none.
func TestRisks(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	safe := file("safe", 0o440)
	for _, c := range []struct {
		name string
		set  func(*config.Config)
		says []string
	}{
		{"nothing", func(*config.Config) {}, nil},
		{"all of it, safely", func(c *config.Config) {
			c.Kafka.TLS = config.TLS{Enabled: true, KeyFile: safe}
			c.Kafka.SASL = config.SASL{Mechanism: kafkaconn.SASLOAuthBearer, OAuth: config.OAuth{TokenURL: "https://id", ClientSecretFile: safe}}
			c.Source.Registry = config.Registry{URL: "https://r", Username: "u", PasswordFile: safe}
		}, nil},
		{"plain", func(c *config.Config) {
			c.Kafka.SASL = config.SASL{Mechanism: kafkaconn.SASLPlain, PasswordFile: file("open", 0o644)}
		}, []string{"sasl plain without TLS", "kafka.sasl.password_file: every user"}},
		{"scram", func(c *config.Config) {
			c.Kafka.SASL = config.SASL{Mechanism: kafkaconn.SASLScramSHA256, PasswordFile: safe}
		}, nil},
		{"a file that all write", func(c *config.Config) { c.Source.Registry.PasswordFile = file("written", 0o602) }, []string{"mode is 0602"}},
		{"a key", func(c *config.Config) { c.Kafka.TLS = config.TLS{Enabled: true, KeyFile: file("key", 0o444)} }, []string{"kafka.tls.key_file"}},
		{"a token", func(c *config.Config) {
			c.Kafka.SASL = config.SASL{Mechanism: kafkaconn.SASLOAuthBearer, OAuth: config.OAuth{TokenURL: "HTTP://id", ClientSecretFile: file("secret", 0o666)}}
		}, []string{"oauthbearer without TLS", "token_url without TLS", "client_secret_file"}},
		{"a registry", func(c *config.Config) { c.Source.Registry = config.Registry{URL: "http://r", Username: "u"} }, []string{"source.registry.url without TLS"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := config.Default()
			c.set(settings)
			got := RisksOf(settings)
			if len(got) != len(c.says) || !slices.EqualFunc(got, c.says, func(r risk, says string) bool { return strings.Contains(r.What, says) && r.Remedy != "" }) {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}
