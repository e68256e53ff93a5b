package vault

import "context"

// Key says which key secrets are sealed for, and where it is: InFile or InKeyring. The name tells keys apart
// and opens nothing. It is an error if the key can't be had, which is where a vault without secrets may be.
func (s *Sealed) Key(ctx context.Context) (name, place string, err error) {
	k, err := readKeyFile(s.keyFile())
	if err != nil {
		return "", "", err
	}
	_, err = s.openKey(ctx, k)
	return k.name, k.place(), err
}

// Names lists the keys of a namespace's secrets, of all if it is "", and opens none.
func (s *Sealed) Names(ctx context.Context, namespace string) ([]string, error) {
	return s.names(ctx, namespace)
}
