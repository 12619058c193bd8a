package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// A login of any kind is taken over, and its secret stays where it is.
func TestStarterTakesTheLogin(t *testing.T) {
	environment := map[string]string{PasswordVariable: "top secret"}
	for name, login := range map[string]SASL{
		"password": {Mechanism: kafkaconn.SASLScramSHA512, Username: "ann", Password: "top secret"},
		"token":    {Mechanism: kafkaconn.SASLOAuthBearer, OAuth: OAuth{TokenURL: "https://id/token", ClientID: "lca", ClientSecret: "top secret", Scopes: []string{"kafka"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, "", nil)
			empty := c.Kafka.SASL.OAuth
			if login.OAuth.Scopes == nil {
				login.OAuth = empty
			}
			login.OAuth.Extensions = empty.Extensions
			c.Kafka.TLS.Enabled, c.Kafka.SASL = true, login
			text := Starter{Config: c}.String()
			if diff := cmp.Diff(c.Kafka, mustLoad(t, text, environment).Kafka); diff != "" {
				t.Errorf("%s\n%s", diff, text)
			}
		})
	}
}
