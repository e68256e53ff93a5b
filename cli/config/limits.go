package config

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Limits bound one run, or bound what a run may ask for.
type Limits struct {
	RAMMB          int64   // MB (1,048,576 bytes), of all processes together
	TimeoutSeconds float64 // of wall time
	CPUCores       float64
	Processes      int64
	OutputBytes    int64 // of stdout, and as much of stderr
	DiskMB         int64 // MB, for /workspace, /tmp and /dev/shm together
}

// Timeout is the wall time as a duration.
func (l Limits) Timeout() time.Duration {
	return time.Duration(l.TimeoutSeconds * float64(time.Second))
}

// limit is one field of a Limits.
type limit struct {
	name     string
	min, max float64 // what makes sense at all; most keeps bytes and nanoseconds within 63 bits
	whole    *int64  // either this
	real     *float64
}

func (l *Limits) all() []limit {
	return []limit{
		{"ram_mb", 8, 16 << 20, &l.RAMMB, nil},
		{"timeout_seconds", 0.1, 30 * 86400, nil, &l.TimeoutSeconds},
		{"cpu_cores", 0.05, 4096, nil, &l.CPUCores},
		{"processes", 1, 1 << 22, &l.Processes, nil}, // 1 << 22 is the kernel's highest pid
		{"output_bytes", 1024, 4 << 30, &l.OutputBytes, nil},
		{"disk_mb", 1, 16 << 20, &l.DiskMB, nil},
	}
}

func (l limit) get() float64 {
	if l.whole != nil {
		return float64(*l.whole)
	}
	return *l.real
}

func (l limit) set(v float64) error {
	switch {
	case math.IsNaN(v) || v < l.min || v > l.max:
		return fmt.Errorf("%s is out of range: %s to %s", decimal(v), decimal(l.min), decimal(l.max))
	case l.whole == nil:
		*l.real = v
	case v != math.Trunc(v):
		return fmt.Errorf("%s is not a whole number", decimal(v))
	default:
		*l.whole = int64(v)
	}
	return nil
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
