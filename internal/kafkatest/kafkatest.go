// Package kafkatest starts Kafka brokers for tests: the embedded one, or real Apache Kafka 4.1.0
// and 3.9.1 as Java processes. One test body runs on all of them (3.8.0 is there by name, see Kafka38):
//
//	func TestPut(t *testing.T) {
//		kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
//			b.CreateTopic(t, "out", 3, nil)
//			…b.Addrs()…
//		})
//	}
//
// A real broker takes 3 to 10 seconds to start, so the tests of a package share one of each kind (see Shared): each test, and each
// case of a table, gives its topics names of its own. A test that needs particular settings starts its own.
//
// Real brokers need java (17 or later) and, the first time, mvn: the jars come from Maven Central
// into the user's cache directory (see java.go). A missing tool fails the test and says how to
// install it. Nothing is skipped: a suite that passes without its brokers has tested nothing.
//
// Every process a test starts ends with the test, even when the test binary is killed: a watchdog
// outlives it (process.go). Logs of a failed test are kept, and their end is printed.
package kafkatest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/embedded"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// Kind is a broker implementation.
type Kind string

// The brokers this project is tested with.
const (
	Embedded Kind = "kfake"
	Kafka41  Kind = "kafka-4.1.0"
	Kafka39  Kind = "kafka-3.9.1"

	// Kafka38 shows a committed transaction's offsets only after it has answered (KAFKA-17507), as
	// every Kafka before 3.9.1 does. A test of what that could break asks for it by name.
	Kafka38 Kind = "kafka-3.8.0"
)

// Kinds are those that Each runs, the quickest first; with -short the two that differ most. Kafka38 is not among them: except for KAFKA-17507
// it answers as 3.9.1 does, and one more broker in every Each would cost minutes of the suite.
func Kinds() []Kind {
	if testing.Short() {
		return []Kind{Embedded, Kafka41}
	}
	return []Kind{Embedded, Kafka41, Kafka39}
}

// Each runs body once for each kind of broker, as a subtest named after the kind, on the brokers that the package shares.
func Each(t *testing.T, body func(t *testing.T, b *Broker)) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) { body(t, Shared(t, kind)) })
	}
}

// Older returns the kind of broker, of an older line of Kafka, that a test asks for by name; with -short the newest, which other tests have started.
func Older(k Kind) Kind {
	if testing.Short() {
		return Kafka41
	}
	return k
}

// Broker is one cluster of one or more nodes, which ends with its test.
type Broker struct {
	Kind  Kind
	t     testing.TB
	nodes []node
	addrs []string
	trans *kafka.Transport

	others  map[string][]string // listener → addresses
	proxies []*Proxy
	asks    *asks
}

// askedBy gives the broker a client for the questions of a test.
func (b *Broker) askedBy(t testing.TB) {
	b.asks = &asks{}
	t.Cleanup(b.asks.forget)
}

// node is one broker process: Java, or the embedded one.
type node interface {
	start(t testing.TB)
	kill(t testing.TB) // at once, as by a power cut
	stop(t testing.TB) // orderly
}

// Start returns a cluster of one node that is ready to serve groups and transactions.
func Start(t testing.TB, k Kind) *Broker { t.Helper(); return StartN(t, k, 1) }

// StartN returns a cluster of n nodes: replication factor n, and for n ≥ 3 min.insync.replicas 2,
// so that it lives on when one node is killed. The embedded broker has one process whatever n is.
func StartN(t testing.TB, k Kind, n int) *Broker {
	t.Helper()
	return StartWith(t, k, Setup{Nodes: n})
}

// Setup is what a test changes about its brokers. All but Nodes and Transactions2 is for Apache Kafka only.
type Setup struct {
	Nodes         int        // default 1
	Listeners     []Listener // besides the plain one, which the test itself uses
	Properties    []string   // further lines of server.properties
	HeapMiB       int        // of each JVM; default 160
	Transactions2 bool       // of the embedded broker: see embedded.Config
	Proxied       bool       // clients that know Proxied() only reach each node through its Proxy

	classes string // makes the archive of classes: see classArchive
}

// Listener is a further port of every node. Its settings go into Setup.Properties, under
// listener.name.NAME (lower case).
type Listener struct {
	Name     string // in capitals, such as ENCRYPTED
	Protocol string // SSL, SASL_PLAINTEXT or SASL_SSL
}

// StartWith returns a cluster as described by a Setup.
func StartWith(t testing.TB, k Kind, s Setup) *Broker {
	t.Helper()
	s.Nodes = max(s.Nodes, 1)
	b := &Broker{Kind: k, t: t, trans: transport(t), others: make(map[string][]string)}
	switch {
	case k != Embedded:
		b.addJava(t, s)
	case len(s.Listeners) > 0 || len(s.Properties) > 0 || s.Proxied:
		t.Fatal("kafkatest: the embedded broker has one kind of listener")
	default:
		e := &embeddedNode{config: embedded.Config{DataDir: t.TempDir(), Ports: testtools.Ports(t, s.Nodes), RetentionBytes: -1, Transactions2: s.Transactions2}}
		for _, port := range e.config.Ports {
			b.addrs = append(b.addrs, local(port))
		}
		b.nodes = []node{e}
	}
	t.Cleanup(func() {
		for _, n := range b.nodes {
			n.kill(t)
		}
	})
	b.askedBy(t)
	b.Restart()
	return b
}

func transport(t testing.TB) *kafka.Transport {
	tr := &kafka.Transport{MetadataTTL: 2 * time.Second, ClientID: "kafkatest"}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func (b *Broker) addJava(t testing.TB, s Setup) {
	t.Helper()
	for _, j := range newJavaCluster(t, b.Kind, s) {
		b.nodes = append(b.nodes, j)
		b.addrs = append(b.addrs, local(j.port))
		for _, l := range j.listeners {
			if l.proxy != 0 {
				b.proxies = append(b.proxies, startProxy(t, local(l.proxy), local(l.port)))
			}
			b.others[l.Name] = append(b.others[l.Name], local(l.advertised()))
		}
	}
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Listener is the bootstrap addresses of one of Setup.Listeners.
func (b *Broker) Listener(name string) []string { return append([]string(nil), b.others[name]...) }

// Proxied is the bootstrap addresses that lead through the proxies, and only through them.
func (b *Broker) Proxied() []string { return b.Listener(proxied) }

// Proxies are the ways to the nodes, one each.
func (b *Broker) Proxies() []*Proxy { return b.proxies }

// Addrs are the bootstrap addresses. They stay the same over Kill and Restart.
func (b *Broker) Addrs() []string { return append([]string(nil), b.addrs...) }

// Client is a kafka-go client of the cluster, closed with the test.
func (b *Broker) Client() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(b.addrs...), Transport: b.trans, Timeout: 15 * time.Second}
}

// Embedded is the broker inside the process, for fault injection; nil for a real one.
func (b *Broker) Embedded() *embedded.Broker {
	if e, ok := b.nodes[0].(*embeddedNode); ok {
		return e.broker
	}
	return nil
}

// Kill ends nodes (by index; none means all) as a power cut would: SIGKILL, nothing flushed. The
// embedded broker cannot do that; it closes its connections and keeps its state.
func (b *Broker) Kill(nodes ...int) {
	b.t.Helper()
	b.asks.forget()
	for _, n := range b.pick(nodes) {
		n.kill(b.t)
	}
}

// Stop ends nodes (none means all) in an orderly way and waits for them.
func (b *Broker) Stop(nodes ...int) {
	b.t.Helper()
	b.asks.forget()
	for _, n := range b.pick(nodes) {
		n.stop(b.t)
	}
}

// Restart starts nodes (none means all) that are down, with the data they had, on the ports they
// had, and waits until each of them serves clients and the cluster serves groups and transactions.
func (b *Broker) Restart(nodes ...int) {
	b.t.Helper()
	for _, n := range b.pick(nodes) {
		n.start(b.t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	b.awaitNodes(ctx, nodes)
	b.awaitCoordinators(ctx)
	b.trans.CloseIdleConnections() // those of the dead process
	b.asks.forget()
}

func (b *Broker) pick(nodes []int) []node {
	if len(nodes) == 0 {
		return b.nodes
	}
	var picked []node
	for _, i := range nodes {
		picked = append(picked, b.nodes[i])
	}
	return picked
}

// readyWithin bounds the start of a cluster: three JVMs on a busy machine have been seen to take
// 42 s.
const readyWithin = 120 * time.Second

// awaitNodes asks each node that was started (none means all) until it knows all of them: two of three serve
// coordinators while the third does not listen yet, and a test may dial that one next.
func (b *Broker) awaitNodes(ctx context.Context, nodes []int) {
	b.t.Helper()
	started := b.addrs
	if len(nodes) > 0 {
		started = nil
		for _, i := range nodes {
			started = append(started, b.addrs[i])
		}
	}
	for _, addr := range started {
		for !knows(ctx, addr, started) {
			if ctx.Err() != nil {
				b.t.Fatalf("kafkatest: %s: the node at %s does not serve clients, or does not know all of %v, within %v", b.Kind, addr, started, readyWithin)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// knows reports whether the node at an address lists all nodes at the others.
func knows(ctx context.Context, addr string, others []string) bool {
	conn, err := kafka.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	listed, err := conn.Brokers()
	if err != nil {
		return false
	}
	known := map[string]bool{}
	for _, n := range listed {
		known[net.JoinHostPort(n.Host, strconv.Itoa(n.Port))] = true
	}
	for _, o := range others {
		if !known[o] {
			return false
		}
	}
	return true
}

// awaitCoordinators asks for a group and a transaction coordinator until both answer: a fresh
// broker makes their topics on demand, and would otherwise refuse the first requests of the test.
func (b *Broker) awaitCoordinators(ctx context.Context) {
	b.t.Helper()
	for _, kind := range []kafka.CoordinatorKeyType{kafka.CoordinatorKeyTypeConsumer, kafka.CoordinatorKeyTypeTransaction} {
		for {
			// A new Transport each time: a pooled one remembers a failed first dial for a while.
			res, err := b.findCoordinator(ctx, kind)
			if err == nil && res.Error == nil {
				break
			}
			if ctx.Err() != nil {
				b.t.Fatalf("kafkatest: %s: no coordinator within %v: %v", b.Kind, readyWithin, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (b *Broker) findCoordinator(ctx context.Context, kind kafka.CoordinatorKeyType) (*kafka.FindCoordinatorResponse, error) {
	tr := &kafka.Transport{DialTimeout: 2 * time.Second}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c := &kafka.Client{Addr: kafka.TCP(b.addrs...), Transport: tr}
	return c.FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: "kafkatest", KeyType: kind})
}

type embeddedNode struct {
	config embedded.Config
	broker *embedded.Broker
}

func (e *embeddedNode) start(t testing.TB) {
	t.Helper()
	if e.broker != nil {
		return
	}
	b, err := embedded.Start(e.config)
	if err != nil {
		t.Fatal(err)
	}
	e.broker = b
}

func (e *embeddedNode) stop(testing.TB) {
	if e.broker != nil {
		e.broker.Close()
		e.broker = nil
	}
}

func (e *embeddedNode) kill(t testing.TB) { e.stop(t) }

// sharedHeapMiB is enough for the topics of all tests that are at work at once.
const sharedHeapMiB = 512

// shared are the brokers of the test binary, by kind and name.
var shared struct {
	sync.Mutex
	brokers map[string]*sharedBroker
}

type sharedBroker struct {
	*Broker
	life  *lifetime
	asked map[string]bool // tests, by name
}

// Shared returns the broker that the tests of a package have in common. It starts with the first test that asks for it and ends with
// Tests.Run. A test gives its topics, groups and transactional ids names that no other test has. Only where no other test runs at the same
// time may it stop the broker, which it starts again, or change its settings, which it puts back.
//
// The embedded broker starts at once, so there each test has its own.
func Shared(t testing.TB, k Kind) *Broker {
	t.Helper()
	if k == Embedded {
		return Start(t, k)
	}
	return SharedWith(t, k, "", Setup{HeapMiB: sharedHeapMiB})
}

// SharedWith is Shared for the tests that need a broker with settings, which have a name.
func SharedWith(t testing.TB, k Kind, name string, setup Setup) *Broker {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	key := string(k) + name
	s := shared.brokers[key]
	if s != nil && s.asked[t.Name()] { // with -count all tests run again, when all of them have ended
		s.life.end(false)
		delete(shared.brokers, key)
		s = nil
	}
	if s == nil {
		s = startShared(t, k, setup)
		if shared.brokers == nil {
			shared.brokers = map[string]*sharedBroker{}
		}
		shared.brokers[key] = s
	}
	s.asked[t.Name()] = true
	b := *s.Broker
	b.t, b.trans = t, transport(t)
	b.askedBy(t)
	return &b
}

func startShared(t testing.TB, k Kind, setup Setup) *sharedBroker {
	t.Helper()
	life := &lifetime{TB: t}
	up := false
	defer func() { // Fatal does not return
		if !up {
			life.end(true)
		}
	}()
	b := StartWith(life, k, setup)
	up = true
	return &sharedBroker{b, life, map[string]bool{}}
}

// Tests are those of a package, with an end for the brokers that they shared:
//
//	func TestMain(m *testing.M) { os.Exit(kafkatest.Tests{M: m}.Run()) }
type Tests struct{ *testing.M }

// Run runs the tests, and ends the brokers.
func (m Tests) Run() int {
	code := m.M.Run()
	for _, s := range shared.brokers {
		s.life.end(code != 0)
	}
	return code
}

// lifetime is the testing.TB of what outlives the test that began it.
type lifetime struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (l *lifetime) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }
func (l *lifetime) Failed() bool     { return l.failed }

func (l *lifetime) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (l *lifetime) end(failed bool) {
	l.failed = failed
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
	l.cleanups = nil
}
