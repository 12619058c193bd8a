package kafkaconn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Tests{M: m}) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// authority makes a certificate for 127.0.0.1 that signs itself, and its files.
func authority(t *testing.T) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	certFile, keyFile = write(t, "cert.pem", certPEM), write(t, "key.pem", keyPEM)
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return pair, certFile, keyFile
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSecurity connects with right and wrong settings: right ones work, and wrong ones get an
// error that names the setting, although a broker that is spoken to wrongly just hangs up.
func TestSecurity(t *testing.T) {
	pair, certFile, keyFile := authority(t)
	_, otherCert, _ := authority(t)
	encrypted := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}})
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(certFile)
	pool.AppendCertsFromPEM(pem)
	mutual := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	user := func(method string) []kfake.Opt {
		return []kfake.Opt{kfake.EnableSASL(), kfake.Superuser(method, "ann", "secret")}
	}
	trusted := kafkaconn.TLS{Enabled: true, CAFile: certFile}
	for _, c := range []struct {
		name   string
		broker []kfake.Opt
		tls    kafkaconn.TLS
		sasl   kafkaconn.SASL
		remedy string // "" is success
	}{
		{name: "plain text"},
		{name: "TLS", broker: []kfake.Opt{encrypted}, tls: trusted},
		{name: "TLS with a client certificate", broker: []kfake.Opt{mutual}, tls: kafkaconn.TLS{Enabled: true, CAFile: certFile, CertFile: certFile, KeyFile: keyFile}},
		{name: "PLAIN", broker: user("PLAIN"), sasl: kafkaconn.SASL{Mechanism: "plain", Username: "ann", Password: "secret"}},
		{name: "SCRAM-SHA-256", broker: user("SCRAM-SHA-256"), sasl: kafkaconn.SASL{Mechanism: "scram_sha_256", Username: "ann", Password: "secret"}},
		{name: "SCRAM-SHA-512, password in a file, TLS", broker: append(user("SCRAM-SHA-512"), encrypted), tls: trusted,
			sasl: kafkaconn.SASL{Mechanism: "scram_sha_512", Username: "ann", PasswordFile: write(t, "password", []byte("secret\n"))}},

		{name: "plain text to a TLS port", broker: []kfake.Opt{encrypted}, remedy: "kafka.tls.enabled: true"},
		{name: "an authority that is not trusted", broker: []kfake.Opt{encrypted}, tls: kafkaconn.TLS{Enabled: true}, remedy: "kafka.tls.ca_file"},
		{name: "another authority", broker: []kfake.Opt{encrypted}, tls: kafkaconn.TLS{Enabled: true, CAFile: otherCert}, remedy: "kafka.tls.ca_file"},
		{name: "another name", broker: []kfake.Opt{encrypted}, tls: kafkaconn.TLS{Enabled: true, CAFile: certFile, ServerName: "kafka"}, remedy: "advertised.listeners"},
		{name: "no client certificate", broker: []kfake.Opt{mutual}, tls: trusted, remedy: "kafka.tls.cert_file"},
		{name: "no SASL", broker: user("PLAIN"), remedy: "kafka.sasl"},
		{name: "another mechanism", broker: user("PLAIN"), sasl: kafkaconn.SASL{Mechanism: "scram_sha_512", Username: "ann", Password: "secret"}, remedy: "kafka.sasl"},
		{name: "wrong password", broker: user("PLAIN"), sasl: kafkaconn.SASL{Mechanism: "plain", Username: "ann", Password: "wrong"}, remedy: "credentials"},
		{name: "wrong password, SCRAM", broker: user("SCRAM-SHA-256"), sasl: kafkaconn.SASL{Mechanism: "scram_sha_256", Username: "ann", Password: "wrong"}, remedy: "credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker, err := kfake.NewCluster(append(c.broker, kfake.NumBrokers(1), kfake.SeedTopics(2, "events"))...)
			if err != nil {
				t.Fatal(err)
			}
			defer broker.Close()
			cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: broker.ListenAddrs(), TLS: c.tls, SASL: c.sasl})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			topics, err := cl.Metadata(within(t), "events", "nothing")
			if c.remedy != "" {
				if err == nil {
					t.Fatal("it works")
				}
				var remedy *kafkaconn.Error
				if err = cl.Explain(err); !errors.As(err, &remedy) || !strings.Contains(remedy.Remedy, c.remedy) {
					t.Errorf("got %v, want a remedy that says %q", err, c.remedy)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(topics["events"].Partitions) != 2 || topics["events"].Err != nil || !errors.Is(topics["nothing"].Err, kafka.UnknownTopicOrPartition) {
				t.Errorf("topics %+v", topics)
			}
		})
	}
}

// TestTLSToPlainText: Kafka takes the first bytes of TLS for a size, finds it too large and hangs up.
func TestTLSToPlainText(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 4))
			_ = c.Close()
		}
	}()
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{l.Addr().String()}, TLS: kafkaconn.TLS{Enabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err = cl.Metadata(within(t)); !strings.Contains(cl.Explain(err).Error(), "kafka.tls.enabled: false") {
		t.Errorf("got %v", cl.Explain(err))
	}
}

// TestMetadataIsFresh: kafka-go's own answer comes from a cache that is seconds old.
func TestMetadataIsFresh(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: broker.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, name := range []string{"a", "b", "c"} {
		if err := broker.CreateTopic(name, 3, nil); err != nil {
			t.Fatal(err)
		}
		topics, err := cl.Metadata(within(t), name)
		if err != nil || len(topics[name].Partitions) != 3 {
			t.Errorf("topic %s just made: %+v, %v", name, topics, err)
		}
	}
	node := (broker.LeaderFor("a", 1) + 1) % 3
	if err := broker.MoveTopicPartition("a", 1, node); err != nil {
		t.Fatal(err)
	}
	if topics, err := cl.Metadata(within(t), "a"); err != nil || topics["a"].Partitions[1].Leader != node {
		t.Errorf("leader of a/1 is %d now; got %+v, %v", node, topics, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	_, certFile, keyFile := authority(t)
	brokers := []string{"localhost:9092"}
	for _, c := range []struct {
		name   string
		config kafkaconn.Config
		text   string
	}{
		{"no brokers", kafkaconn.Config{}, "kafka.brokers"},
		{"a broker without port", kafkaconn.Config{Brokers: []string{"localhost"}}, `"localhost" is not host:port`},
		{"a URL", kafkaconn.Config{Brokers: []string{"kafka://localhost:9092"}}, "is not host:port"},
		{"two in one", kafkaconn.Config{Brokers: []string{"a:9092,b:9092"}}, "is not host:port"},
		{"files without TLS", kafkaconn.Config{Brokers: brokers, TLS: kafkaconn.TLS{CAFile: certFile}}, "kafka.tls.enabled is false"},
		{"no such file", kafkaconn.Config{Brokers: brokers, TLS: kafkaconn.TLS{Enabled: true, CAFile: "nowhere.pem"}}, "kafka.tls.ca_file"},
		{"not a certificate", kafkaconn.Config{Brokers: brokers, TLS: kafkaconn.TLS{Enabled: true, CAFile: keyFile}}, "no PEM certificate"},
		{"certificate without key", kafkaconn.Config{Brokers: brokers, TLS: kafkaconn.TLS{Enabled: true, CertFile: certFile}}, "go together"},
		{"key and certificate exchanged", kafkaconn.Config{Brokers: brokers, TLS: kafkaconn.TLS{Enabled: true, CertFile: keyFile, KeyFile: certFile}}, "kafka.tls.cert_file"},
		{"unknown mechanism", kafkaconn.Config{Brokers: brokers, SASL: kafkaconn.SASL{Mechanism: "kerberos", Username: "u"}}, "none of [none plain"},
		{"no user", kafkaconn.Config{Brokers: brokers, SASL: kafkaconn.SASL{Mechanism: "plain"}}, "kafka.sasl.username"},
		{"two passwords", kafkaconn.Config{Brokers: brokers, SASL: kafkaconn.SASL{Mechanism: "plain", Username: "u", Password: "p", PasswordFile: "f"}}, "keep one"},
		{"no password file", kafkaconn.Config{Brokers: brokers, SASL: kafkaconn.SASL{Mechanism: "plain", Username: "u", PasswordFile: "nowhere"}}, "kafka.sasl.password_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := kafkaconn.Open(c.config); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want an error that says %q", err, c.text)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.Explain(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	if other := errors.New("other"); !errors.Is(cl.Explain(other), other) || cl.Explain(other).Error() != other.Error() {
		t.Error("an error that needs no remedy was changed")
	}
	if timeout := cl.Explain(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}); !strings.Contains(timeout.Error(), "firewall") {
		t.Errorf("a timeout: %v", timeout)
	}
	if login := cl.Explain(kafka.IllegalSASLState); !strings.Contains(login.Error(), "kafka.sasl.mechanism: none") {
		t.Errorf("a login that is not asked for: %v", login)
	}
	once := cl.Explain(io.ErrUnexpectedEOF)
	if twice := cl.Explain(once); twice.Error() != once.Error() || !errors.Is(once, io.ErrUnexpectedEOF) {
		t.Errorf("explained twice: %v", twice)
	}
	if _, err = cl.Metadata(within(t), "events"); !strings.Contains(cl.Explain(err).Error(), "nothing listens there") {
		t.Errorf("a closed port: %v", cl.Explain(err))
	}
}
