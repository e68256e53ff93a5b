package cli

import "io"

// listing prints a table whose rows are all there.
func listing(w io.Writer, rows [][]string, columns ...column) error {
	t := newTable(w, columns...)
	for _, row := range rows {
		if err := t.Row(row...); err != nil {
			return err
		}
	}
	return t.Close()
}
