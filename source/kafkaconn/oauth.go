package kafkaconn

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/sync/singleflight"

	"github.com/lca-stream/lca-stream/internal/credentials"
)

// OAuth says where a program gets the token that it shows to brokers: from an OAuth 2.0 server, by the grant
// client_credentials (RFC 6749, section 4.4). The token is sent as RFC 7628 says (KIP-255).
type OAuth struct {
	TokenURL         string // https://HOST/…, the server's token endpoint
	ClientID         string
	ClientSecret     string
	ClientSecretFile string   // instead of ClientSecret: its content without the line end, read for each token
	Scopes           []string // what the token is for; empty: what the server gives
	CAFile           string   // PEM file of the authorities that may sign the server's certificate; "": the system's
	Extensions       []string // NAME=VALUE, what brokers ask for besides the token (KIP-342), such as logicalCluster=lkc-1
}

const (
	// tokenWait bounds a request for a token. A connection waits for it, within dialTimeout.
	tokenWait = 5 * time.Second

	// tokenMost bounds the answer, in bytes.
	tokenMost = 1 << 20
)

// bearer is the mechanism OAUTHBEARER. All connections share a token, which is renewed once four fifths of its time
// are over.
type bearer struct {
	config OAuth
	client *http.Client
	token  atomic.Pointer[token]
	asking singleflight.Group
	record record
}

// token is a token, when it was asked for, when to renew it, and when it ends.
type token struct {
	text                  string
	asked, renew, expires time.Time
}

// fresh reports whether there is a token that need not be renewed yet.
func (t *token) fresh() bool { return t != nil && time.Now().Before(t.renew) }

func newBearer(c OAuth) (*bearer, error) {
	if err := CheckTokenURL(c.TokenURL); err != nil {
		return nil, fmt.Errorf("kafka.sasl.oauth.token_url %w", err)
	}
	for _, e := range c.Extensions {
		if name, value, ok := strings.Cut(e, "="); !ok || name == "" || name == "auth" || strings.ContainsAny(name+value, "\x01") {
			return nil, fmt.Errorf("kafka.sasl.oauth.extensions: %q is not NAME=VALUE", e)
		}
	}
	pool, err := credentials.Authorities(c.CAFile, "kafka.sasl.oauth.ca_file")
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		IdleConnTimeout: tokenWait,
	}
	// A redirect would take the secret elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &bearer{config: c, client: &http.Client{Transport: transport, CheckRedirect: stay, Timeout: tokenWait}}, nil
}

// CheckTokenURL reports what is wrong with the address of a token endpoint. It holds no secret, because addresses are shown.
func CheckTokenURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("is not https://HOST/PATH")
	case u.User != nil:
		return errors.New("has a user in it, who belongs into kafka.sasl.oauth.client_id and client_secret_file")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("has more than an address and a path")
	}
	return nil
}

// Name returns the mechanism's name in the protocol.
func (b *bearer) Name() string { return "OAUTHBEARER" }

// Start returns the first message, which has all that there is to say.
func (b *bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	t, err := b.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	if l, ok := ctx.Value(loginKey{}).(*login); ok {
		l.shown.Store(t)
	}
	message := "n,,\x01auth=Bearer " + t.text
	for _, e := range b.config.Extensions {
		message += "\x01" + e
	}
	return bearerAnswer{b, t}, []byte(message + "\x01\x01"), nil
}

// bearerAnswer reads what a broker says to a token.
type bearerAnswer struct {
	bearer *bearer
	shown  *token
}

// Next ends the login: a broker that takes the token says nothing, one that refuses it says why.
func (a bearerAnswer) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) == 0 {
		a.bearer.record.taken()
		return true, nil, nil
	}
	return false, nil, a.bearer.refused(a.shown, fmt.Errorf("%.200q: %w", challenge, kafka.SASLAuthenticationFailed))
}

// current returns a token that is valid. One that is about to end is used while no new one can be had.
func (b *bearer) current(ctx context.Context) (*token, error) {
	have := b.token.Load()
	if have.fresh() {
		return have, nil
	}
	asked := b.asking.DoChan("", func() (any, error) {
		if t := b.token.Load(); t.fresh() { // a request that ended since
			return t, nil
		}
		if err := b.record.wait(time.Now()); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenWait) // others wait for it too
		defer cancel()
		t, err := b.ask(ctx)
		if err == nil {
			b.token.Store(t)
		}
		return t, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-asked:
		if got.Err == nil {
			return got.Val.(*token), nil
		}
		if have != nil && time.Now().Before(have.expires) {
			return have, nil
		}
		return nil, &Error{Err: fmt.Errorf("kafkaconn: a token from %s: %w", b.config.TokenURL, got.Err), Remedy: "check kafka.sasl.oauth"}
	}
}

func (b *bearer) ask(ctx context.Context) (*token, error) {
	c := b.config
	secret, err := credentials.Secret(c.ClientSecret, c.ClientSecretFile, "kafka.sasl.oauth.client_secret")
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(c.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Scopes, " "))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(secret)) // RFC 6749, section 2.3.1
	asked := time.Now()
	response, err := b.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, tokenMost))
	if err != nil {
		return nil, err
	}
	return newToken(response.StatusCode, body, asked)
}

// newToken reads the server's answer (RFC 6749, sections 5.1 and 5.2). A token without a time is used once. The last
// second of its time is not counted on, because servers write the end into the token in whole seconds.
func newToken(status int, body []byte, asked time.Time) (*token, error) {
	var answer struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
		Error       string  `json:"error"`
		Description string  `json:"error_description"`
	}
	err := json.Unmarshal(body, &answer)
	switch {
	case status != http.StatusOK:
		return nil, &tokenError{status, strings.TrimSpace(fmt.Sprintf("%.100s %.300s", answer.Error, answer.Description))}
	case err != nil:
		return nil, fmt.Errorf("its answer does not parse: %w", err)
	case answer.AccessToken == "" || strings.ContainsAny(answer.AccessToken, "\x01\r\n"):
		return nil, errors.New("its answer has no access_token")
	}
	life := time.Duration(min(max(answer.ExpiresIn, 0), 365*24*3600) * float64(time.Second))
	return &token{answer.AccessToken, asked, asked.Add(min(life*4/5, life-time.Second)), asked.Add(life)}, nil
}

// tokenError is a refusal of the OAuth server.
type tokenError struct {
	status int
	said   string
}

func (e *tokenError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s: %s", e.status, http.StatusText(e.status), e.said))
}

// Timeout reports whether it may pass by itself, as a time-out may: then the connection is tried again.
func (e *tokenError) Timeout() bool {
	return e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests
}

// Temporary is part of net.Error.
func (e *tokenError) Temporary() bool { return e.Timeout() }
