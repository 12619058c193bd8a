//go:build unix

package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// issuer is an OAuth 2.0 server that gives tokens for client_credentials. They are not signed: Kafka's own validator
// for tests reads them (KIP-255).
type issuer struct {
	url, ca string
	given   atomic.Int64
}

const (
	clientID     = "lca client"
	clientSecret = "a:secret/with&signs"

	// tokenLife is how long a token is valid, and a broker takes requests of a connection that showed it.
	tokenLife = 3 * time.Second
)

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{ca: filepath.Join(t.TempDir(), "issuer.pem")}
	s := httptest.NewTLSServer(http.HandlerFunc(i.give))
	t.Cleanup(s.Close)
	i.url = s.URL + "/token"
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(i.ca, certificate, 0o644); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issuer) give(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	if user != "lca+client" || password != "a%3Asecret%2Fwith%26signs" || r.FormValue("grant_type") != "client_credentials" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error": "invalid_client", "error_description": "no such client"}`)
		return
	}
	now := time.Now()
	claims := map[string]any{"sub": "ann", "iat": now.Unix(), "exp": now.Add(tokenLife).Unix(), "scope": r.FormValue("scope")}
	switch scope := r.FormValue("scope"); {
	case strings.Contains(scope, "expired"):
		claims["exp"] = now.Add(-time.Hour).Unix()
	case strings.Contains(scope, "behind"): // the server's clock is a second behind that of brokers
		claims["exp"] = now.Add(tokenLife - time.Second).Unix()
	}
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	i.given.Add(1)
	part := base64.RawURLEncoding.EncodeToString
	fmt.Fprintf(w, `{"access_token": "%s.%s.", "token_type": "Bearer", "expires_in": %.0f}`, part([]byte(`{"alg":"none"}`)), part(body), tokenLife.Seconds())
}

// login is the YAML of kafka.tls and kafka.sasl.
func (i *issuer) login(secret, scope string) string {
	return fmt.Sprintf("tls: {ca_file: %s}, sasl: {mechanism: oauthbearer, oauth: {token_url: %q, client_id: %q, client_secret: %q, scopes: [kafka, %s], extensions: [pool=one]}}",
		i.ca, i.url, clientID, secret, scope)
}

// bearers are the settings of a listener for tokens, each connection of which must log in again after tokenLife.
func bearers(listener string) []string {
	return in(listener, "sasl.enabled.mechanisms", "OAUTHBEARER",
		"oauthbearer.sasl.jaas.config", `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
		"oauthbearer.connections.max.reauth.ms", fmt.Sprint(tokenLife.Milliseconds()))
}
