package mcp

// maxIdle is how many workers wait for the next request: as many as come at once from most clients.
const maxIdle = 4

// workers do what would each be done by a goroutine of its own, whose stack grows, by copies, to what a request takes:
// theirs have grown.
type workers struct {
	jobs chan func()   // to one that waits
	idle chan struct{} // a token for each that may wait
	end  <-chan struct{}
}

func newWorkers(end <-chan struct{}) workers {
	return workers{jobs: make(chan func()), idle: make(chan struct{}, maxIdle), end: end}
}

// do has a job done at once, and does not wait for it.
func (w workers) do(job func()) {
	select {
	case w.jobs <- job:
	default:
		go w.work(job)
	}
}

// work does a job, and then the next ones, until end is closed or enough other workers wait.
func (w workers) work(job func()) {
	for {
		job()
		select {
		case w.idle <- struct{}{}:
		default:
			return
		}
		select {
		case job = <-w.jobs:
			<-w.idle
		case <-w.end:
			return
		}
	}
}
