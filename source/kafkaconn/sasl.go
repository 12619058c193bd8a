package kafkaconn

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"golang.org/x/sync/singleflight"

	"github.com/lca-stream/lca-stream/internal/credentials"
)

// Mechanism is how a user shows the password to brokers.
type Mechanism string

// The mechanisms; "" is SASLNone.
const (
	SASLNone        Mechanism = "none"
	SASLPlain       Mechanism = "plain"
	SASLScramSHA256 Mechanism = "scram_sha_256"
	SASLScramSHA512 Mechanism = "scram_sha_512"
	SASLOAuthBearer Mechanism = "oauthbearer"
)

// Mechanisms returns every Mechanism.
func Mechanisms() []Mechanism {
	return []Mechanism{SASLNone, SASLPlain, SASLScramSHA256, SASLScramSHA512, SASLOAuthBearer}
}

// SASL configures what is shown to brokers: user name and password, or a token.
type SASL struct {
	Mechanism    Mechanism
	Username     string
	Password     string
	PasswordFile string // instead of Password: its content without the line end, read for each login
	OAuth        OAuth  // of SASLOAuthBearer, which has no user name and password
}

// mechanism returns nil when SASL is off.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.off() {
		return nil, nil
	}
	if s.Mechanism == SASLOAuthBearer {
		b, err := newBearer(s.OAuth)
		if err != nil {
			return nil, fmt.Errorf("kafkaconn: %w", err)
		}
		return b, nil
	}
	password, err := credentials.Renewed(s.Password, s.PasswordFile, "kafka.sasl.password")
	if err != nil {
		return nil, fmt.Errorf("kafkaconn: %w", err)
	}
	if s.Username == "" {
		return nil, fmt.Errorf("kafkaconn: kafka.sasl.mechanism is %s but kafka.sasl.username is empty", s.Mechanism)
	}
	with := func(password string) (sasl.Mechanism, error) {
		switch s.Mechanism {
		case SASLPlain:
			return plain.Mechanism{Username: s.Username, Password: password}, nil
		case SASLScramSHA256:
			return scram.Mechanism(scram.SHA256, s.Username, password)
		case SASLScramSHA512:
			return scram.Mechanism(scram.SHA512, s.Username, password)
		}
		return nil, fmt.Errorf("%q is none of %v", s.Mechanism, Mechanisms())
	}
	m, err := with(password())
	if err != nil {
		return nil, fmt.Errorf("kafkaconn: kafka.sasl.mechanism: %w", err)
	}
	if s.PasswordFile == "" {
		return m, nil
	}
	return renewed{m.Name(), func() (sasl.Mechanism, error) { return with(password()) }}, nil
}

// renewed is a mechanism whose password is read at each login.
type renewed struct {
	name string
	now  func() (sasl.Mechanism, error)
}

// Name returns the mechanism's name in the protocol.
func (r renewed) Name() string { return r.name }

// Start begins a login.
func (r renewed) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := r.now()
	if err != nil {
		return nil, nil, fmt.Errorf("kafkaconn: kafka.sasl.password_file: %w", err)
	}
	return m.Start(ctx)
}

func (s SASL) off() bool { return s.Mechanism == "" || s.Mechanism == SASLNone }

// OAuth says where a program gets the token that it shows to brokers: from an OAuth 2.0 server, by the grant
// client_credentials (RFC 6749, section 4.4). The token is sent as RFC 7628 says (KIP-255).
type OAuth struct {
	TokenURL         string // https://HOST/…, the server's token endpoint
	ClientID         string
	ClientSecret     string
	ClientSecretFile string   // instead of ClientSecret: its content without the line end, read for each token
	Scopes           []string // what the token is for; empty: what the server gives
	CAFile           string   // PEM file of authorities that may sign the server's certificate, besides the system's
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
	pool, err := credentials.MoreAuthorities(c.CAFile, "kafka.tls.ca_file")
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
	got, err := newToken(response.StatusCode, body, asked)
	if refused := (*tokenError)(nil); errors.As(err, &refused) {
		id, escaped := url.QueryEscape(c.ClientID), url.QueryEscape(secret) // as they were shown
		refused.said = credentials.Hidden(credentials.Hidden(refused.said, id, escaped), id, secret)
	}
	return got, err
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

const (
	// refusedFor is how long brokers may refuse every token of a process whose tokens they have taken before. After the
	// keys of the OAuth server have changed, brokers need about that long to read the new ones.
	refusedFor = time.Minute

	// firstAsk and lastAsk bound the time between the requests for two tokens, if the first of them was taken and soon
	// refused. It doubles each time.
	firstAsk = time.Second
	lastAsk  = 30 * time.Second
)

// record is what brokers have said to the tokens of a process. The first token that is shown decides whether the
// configuration is right. Later a token is refused because it ended early, because clocks differ, because it was
// revoked, or because the server's keys have changed. That passes with a new token.
type record struct {
	mu      sync.Mutex
	known   bool          // brokers have taken a token
	trouble time.Time     // when brokers began to refuse, with no token taken since; zero: they do not
	next    time.Time     // earliest time to ask for a token
	apart   time.Duration // time between the last two requests for tokens that were soon refused
}

func (r *record) taken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.trouble = true, time.Time{}
}

// refused notes that t was refused, and reports whether a new token may be taken. The first connection to say so decides
// when to ask for it: at once if t was of use for some time.
func (r *record) refused(t *token, first bool, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch use := min(max(t.expires.Sub(t.asked)/4, firstAsk), lastAsk); {
	case !first:
	case now.Sub(t.asked) > use:
		r.apart, r.next = 0, now
	default:
		r.apart = min(max(2*r.apart, firstAsk), lastAsk)
		r.next = t.asked.Add(r.apart)
	}
	if r.trouble.IsZero() {
		r.trouble = now
	}
	return r.known && now.Sub(r.trouble) < refusedFor
}

// wait returns an error that passes as long as no token should be asked for.
func (r *record) wait(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.next.Sub(now); d > 0 {
		return &refusal{fmt.Errorf("the last token was refused soon after it was taken, and a new one is asked for in %v", d.Round(time.Millisecond)), true}
	}
	return nil
}

// refused returns the error of a login that showed t, which is not shown again.
func (b *bearer) refused(t *token, err error) error {
	refused := &refusal{err: fmt.Errorf("kafkaconn: the token is refused: %w", err)}
	if refused.passes = b.record.refused(t, b.token.CompareAndSwap(t, nil), time.Now()); refused.passes {
		return &Error{Err: refused, Remedy: "brokers have taken tokens before, so a new one is asked for: this one may have been revoked, or clocks differ"}
	}
	return refused
}

// refusal is the error of a login for which brokers refuse the token.
type refusal struct {
	err    error
	passes bool // a new token may be taken
}

var _ net.Error = (*refusal)(nil)

func (e *refusal) Error() string { return e.err.Error() }

// Unwrap hides what passes, because callers do not try again after kafka.SASLAuthenticationFailed.
func (e *refusal) Unwrap() error {
	if e.passes {
		return nil
	}
	return e.err
}

// Timeout makes callers try again, as after a time-out, if it passes.
func (e *refusal) Timeout() bool { return e.passes }

// Temporary is part of net.Error.
func (e *refusal) Temporary() bool { return e.passes }

// login is the token that was shown last for a request.
type login struct{ shown atomic.Pointer[token] }

type loginKey struct{}

// bearerTransport also sees brokers that refuse a token by an error code or by closing the connection. kafka-go does
// not tell the mechanism about these.
type bearerTransport struct {
	*kafka.Transport
	bearer *bearer
}

// RoundTrip sends a request over a connection that has shown a token.
func (t *bearerTransport) RoundTrip(ctx context.Context, address net.Addr, r kafka.Request) (kafka.Response, error) {
	l := new(login)
	response, err := t.Transport.RoundTrip(context.WithValue(ctx, loginKey{}, l), address, r)
	if shown := l.shown.Load(); shown != nil && errors.Is(err, kafka.SASLAuthenticationFailed) && !errors.As(err, new(*refusal)) {
		err = t.bearer.refused(shown, err)
	}
	return response, err
}
