package kernel

// Scratch holds the buffers of [Update], [LSE] and [Project]; they grow once and are then
// reused, so that a call allocates nothing. A Scratch serves one call at a time.
type Scratch[T Float] struct {
	// Threads is how many goroutines a call may use, where there is enough to do; 0 means 1. It does not
	// change a bit of any result: work is split by index and combined in index order.
	Threads int

	f       *functions[T]
	zero    []T // one panel row of zeros: the start of a product that is not added to anything
	workers []worker[T]

	q    []T // the call's queries
	rows int
	pool *Neighbours[T]
	ex   Exclusion
	m    *Moments
	lse  []float64

	mean     []T       // ΛZ as panels of coordinates, rows long
	residual []T       // Q − ΛZ likewise
	origin   []float64 // as many zeros as coordinates count in the kernel
	weights  []T       // λᵀ1 of each block of rows
	copies   []int     // near copies found in each block
	weight   []float64 // λᵀ1
	weightT  []T       // the same, rounded, of the points in coords
	points   int       // how many those are
	coords   []T       // the pool's panels, or
	kept     []T       // a copy without the points that weigh nothing
	cov      []float64 // Ĉ as panels of columns

	phase   phase
	crew    crew
	threads int // of this call
}

// worker is what one goroutine needs for itself.
type worker[T Float] struct {
	logits   []T       // a block of rows of Λ:
	rows     int       // so many of them,
	length   int       // so long, whole panels, and
	ld       int       // so far apart
	q        []T       // the block's queries, at a stride that suits the cache
	dense    []int     // the block's rows that use all their weights, and
	inv      []T       // their 1/Σ_j w_ij
	lists    []list[T] // the sparse rows, of which so many are of
	closed   int       // blocks before this one
	sums     []T       // λᵀ1 of the block, in which so many of
	summed   int       // dense are
	norms    []float64 // |q|² of the block's queries, over the coordinates that count in the kernel
	index    []int32
	value    []T
	from, to int       // the list just made
	entropy  []float64 // (Σ_j w_ij t_ij)/Σ of each row
	sum      []T       // Σ_j w_ij z_j of the dense rows, as panels of blockRows rows
	tile     []T       // a product of foldRows terms, before it is folded
	scaled   []T       // foldRows rows of a panel times their weights
}

// phase is a step of a call that goroutines share.
type phase uint8

const (
	phaseUpdate     phase = iota // items are blocks of rows
	phaseLSE                     // likewise
	phaseCovariance              // items are panels of columns
)

func (s *Scratch[T]) do(worker, item int) {
	w := &s.workers[worker]
	switch s.phase {
	case phaseUpdate:
		s.updateBlock(w, item)
	case phaseLSE:
		s.lseBlock(w, item)
	case phaseCovariance:
		s.covariancePanel(w, item)
	}
}

func (s *Scratch[T]) ended(worker int) {
	if s.phase == phaseUpdate {
		s.sparseMeans(&s.workers[worker])
	}
}

// run does the items 0 … n−1 of a phase on s.threads goroutines.
func (s *Scratch[T]) run(n int, ph phase) {
	s.phase = ph
	threads := max(1, min(s.threads, n))
	s.worker(threads - 1)
	s.crew.run(s, n, threads)
}

// worker returns worker i, and makes those up to it.
func (s *Scratch[T]) worker(i int) *worker[T] {
	for len(s.workers) <= i {
		s.workers = append(s.workers, worker[T]{})
	}
	return &s.workers[i]
}

func (s *Scratch[T]) begin() {
	s.f = functionsOf[T]()
	if s.zero == nil {
		s.zero = grow(s.zero, panelWidth[T]())
		clear(s.zero)
	}
}

// share decides how many goroutines a call uses. So many multiply-adds a pair come with the exponential, and with
// what else there is to it.
func (s *Scratch[T]) share(multiplied int) {
	const around = 16
	s.threads = s.crew.threads(s.Threads, s.rows*s.pool.n*(multiplied+around))
}

// end forgets the call's arguments, so that a Scratch keeps nobody else's memory alive.
func (s *Scratch[T]) end() {
	s.q, s.pool, s.m, s.lse, s.coords = nil, nil, nil, nil, nil
	s.ex = Exclusion{}
}
