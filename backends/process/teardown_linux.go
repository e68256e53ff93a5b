package process

import (
	"errors"
	"os"
)

// Close implements [backends.Sandbox].
func (s *Sandbox) Close() error {
	var err error
	s.close.Do(func() {
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		s.hooks.Closing()
		s.backend.mu.Lock()
		finished := s.backend.finished // waits for later removals, too
		s.backend.mu.Unlock()
		background := !finished && s.isQuiet()
		if background {
			s.gateway.Close()
			err = s.files.Close()
			s.Init.startKill()
		}
		s.backend.teardowns.run(background, func() {
			if failed := s.tearDown(); !background {
				err = failed
			}
		})
	})
	return err
}

// isQuiet reports that only PID 1 is alive, and that the sandbox shows no path of the host: no process can notice
// whether its namespaces are gone.
func (s *Sandbox) isQuiet() bool {
	begun := s.begun.Load()
	return s.files != nil && s.HostIndependent() && (begun == 0 || begun == 1 && s.exited.Load())
}

// tearDown ends all processes, and removes all resources of the sandbox.
func (s *Sandbox) tearDown() error {
	var err error
	s.kill()
	if s.files != nil { // then receiveMessages runs, and notices that PID 1 is gone
		<-s.gone
		s.notifying.Wait()
		s.using.Wait()
		err = s.files.Close()
	}
	s.gateway.Close()
	s.backend.cpus.Return(s.bound)
	for _, f := range []*os.File{s.proc, s.shm, s.disk} {
		f.Close() // may be nil
	}
	for _, f := range s.procFiles {
		f.Close()
	}
	for _, o := range s.owned {
		o.ids.Close()
	}
	if s.Init != nil {
		s.Init.Remove()
	}
	if s.hostDir != "" {
		err = errors.Join(err, removeAll(s.hostDir))
	}
	s.backend.mu.Lock()
	delete(s.backend.running, s)
	s.backend.mu.Unlock()
	s.hooks.Removed()
	return err
}
