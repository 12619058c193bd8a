package system

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// risk is what a configuration gives up of the protection of secrets, and what to do about it.
type risk struct{ What, Remedy string }

// RisksOf returns what doctor finds, and what every process that stays says at its start.
func RisksOf(c *config.Config) (all []risk) {
	k, r := &c.Kafka, &c.Source.Registry
	oauth := k.SASL.Mechanism == kafkaconn.SASLOAuthBearer
	for _, one := range []struct {
		true bool
		risk
	}{
		{k.SASL.Mechanism == kafkaconn.SASLPlain && !k.TLS.Enabled, risk{"sasl plain without TLS: the password goes over the network as it is", "set kafka.tls.enabled, or use scram_sha_512"}},
		{oauth && !k.TLS.Enabled, risk{"sasl oauthbearer without TLS: the token goes over the network as it is", "set kafka.tls.enabled"}},
		{oauth && plainHTTP(k.SASL.OAuth.TokenURL), risk{"kafka.sasl.oauth.token_url without TLS: the secret goes over the network as it is", "set an https address"}},
		{r.Username != "" && plainHTTP(r.URL), risk{"source.registry.url without TLS: the password goes over the network as it is", "set an https address"}},
	} {
		if one.true {
			all = append(all, one.risk)
		}
	}
	for _, file := range [][2]string{
		{"kafka.sasl.password_file", k.SASL.PasswordFile}, {"kafka.sasl.oauth.client_secret_file", k.SASL.OAuth.ClientSecretFile},
		{"source.registry.password_file", r.PasswordFile}, {"kafka.tls.key_file", k.TLS.KeyFile},
	} {
		if mode, open := openToAll(file[1]); open {
			all = append(all, risk{fmt.Sprintf("%s: every user of this machine can read or write %s, whose mode is %04o", file[0], file[1], mode), "chmod 0400, or 0440 with a group of its own"})
		}
	}
	return all
}

// plainHTTP reports whether an address is without TLS. Schemes have no case.
func plainHTTP(url string) bool { return strings.HasPrefix(strings.ToLower(url), "http://") }

// openToAll reports whether others than a file's owner and group may read or write it. Windows has no such modes.
func openToAll(path string) (mode fs.FileMode, open bool) {
	info, err := os.Stat(path)
	if path == "" || err != nil || runtime.GOOS == "windows" {
		return 0, false
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o006 != 0
}

// SayRisks logs them.
func SayRisks(c *config.Config, log *slog.Logger) {
	for _, r := range RisksOf(c) {
		log.Warn("a secret is less safe than it could be", "what", r.What, "remedy", r.Remedy)
	}
}
