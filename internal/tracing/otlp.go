package tracing

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
	firstWait       = time.Second // before a second attempt; doubled before each one after that
	longestAnswer   = 64 << 10    // bytes that are read of a collector's answer
)

// client sends spans by OTLP over HTTP, with protobuf bodies, as the variables OTEL_EXPORTER_OTLP_* say. It is here because
// OpenTelemetry's own brings all of gRPC along, which is two megabytes of the binary.
type client struct {
	url     string
	header  http.Header
	timeout time.Duration
	gzip    bool
	http    *http.Client
}

// setting reads OTEL_EXPORTER_OTLP_TRACES_x, or OTEL_EXPORTER_OTLP_x where that is not set.
func setting(name string) string {
	return cmp.Or(strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name)), strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_"+name)))
}

// newClient reads the environment.
func newClient() (*client, error) {
	c := &client{timeout: defaultTimeout, header: http.Header{"Content-Type": {"application/x-protobuf"}}}
	var err error
	if c.url, err = endpoint(); err != nil {
		return nil, err
	}
	if v := setting("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms < 1 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; want milliseconds, such as 10000", v)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	switch v := setting("COMPRESSION"); v {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.header.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q; want gzip or none", v)
	}
	if err := c.addHeaders(setting("HEADERS")); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = tlsConfig(); err != nil {
		return nil, err
	}
	// A redirect would take what the headers hold, such as a key, elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &http.Client{Transport: transport, CheckRedirect: stay}
	return c, nil
}

// endpoint returns where to send: what is set for traces as it is, and what is set for all signals with a path for traces.
func endpoint() (string, error) {
	v, path := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")), ""
	if v == "" {
		v, path = cmp.Or(strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")), defaultEndpoint), "/v1/traces"
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("the endpoint is %q; want http://HOST:PORT or https://HOST:PORT", v)
	}
	if path != "" {
		u = u.JoinPath(path)
	}
	return u.String(), nil
}

// addHeaders adds a list such as "api-key=secret,x-tenant=a%20b".
func (c *client) addHeaders(list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil {
			return errors.New("OTEL_EXPORTER_OTLP_HEADERS: want name=value,name=value with values as in a URL") // without its text: it holds secrets
		}
		c.header.Set(name, value)
	}
	return nil
}

// tlsConfig reads the certificates that the environment names; nil are the system's.
func tlsConfig() (*tls.Config, error) {
	ca, certificate, key := setting("CERTIFICATE"), setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY")
	if ca == "" && certificate == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", ca)
		}
	}
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It tries again, for as long as the time-out lets it, where the collector is away or asks for it.
func (c *client) UploadTraces(ctx context.Context, spans []*wire.ResourceSpans) error {
	body, err := proto.Marshal(&wire.TracesData{ResourceSpans: spans}) // the bytes of an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	if c.gzip {
		body = compressed(body)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for wait := firstWait; ; wait *= 2 {
		asked, again, err := c.send(ctx, body)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(wait, asked)):
		}
	}
}

// send makes one attempt. It returns whether another may succeed, and how long the collector wants it to wait.
func (c *client) send(ctx context.Context, body []byte) (wait time.Duration, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	r.Header = c.header.Clone()
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, true, err
	}
	defer func() { _ = answer.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return time.Duration(seconds) * time.Second, true, fmt.Errorf("%s: %s", c.url, answer.Status)
	}
	if answer.StatusCode/100 != 2 {
		return 0, false, fmt.Errorf("%s: %s", c.url, answer.Status)
	}
	return 0, false, rejected(said)
}

// rejected returns what a collector says of spans that it did not take: an ExportTraceServiceResponse has partial_success = 1, with
// rejected_spans = 1 and error_message = 2.
func rejected(answer []byte) error {
	var spans uint64
	var message string
	fields(answer, func(number protowire.Number, _ uint64, partial []byte) {
		if number != 1 {
			return
		}
		fields(partial, func(number protowire.Number, value uint64, text []byte) {
			switch number {
			case 1:
				spans = value
			case 2:
				message = string(text)
			}
		})
	})
	if spans == 0 && message == "" {
		return nil
	}
	return fmt.Errorf("the collector refused %d spans: %s", spans, message)
}

// fields calls f for each field of a message that is a number or bytes, up to the first that is damaged.
func fields(b []byte, f func(number protowire.Number, value uint64, bytes []byte)) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return
		}
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b[n:])
			f(number, v, nil)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(b[n:])
			f(number, 0, v)
		}
		b = b[n+size:]
	}
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}
