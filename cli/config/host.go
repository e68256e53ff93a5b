package config

// Host is what agents may do on the host, outside of any sandbox.
type Host struct {
	Enabled        bool
	Allowed        []string // command patterns, "@safe" for the list of what changes nothing
	Blocked        []string // command patterns that nobody may allow, on top of the built-in list
	TimeoutSeconds int      // the most that a command may take
	OutputBytes    int64    // of a command's stdout, and as many of stderr, that are kept
	RAMMB          int64    // MB, of a command and all that it starts
	Processes      int      // and their threads
	CPUCores       int      // for all of them; 0 is all
	Environment    []string // names of variables that commands get
	Read           []string // directories, absolute
	Write          []string // directories that may be written, and read
	MaxFileMB      int64    // MB, of one file that is read, written or copied
}

func hostSettings() []setting {
	return []setting{
		yesNo("host.enabled", "", func(c *Config) *bool { return &c.Host.Enabled }),
		list("host.allowed", func(c *Config) *[]string { return &c.Host.Allowed }),
		list("host.blocked", func(c *Config) *[]string { return &c.Host.Blocked }),
		count("host.timeout_seconds", "", 1, 3600, func(c *Config) *int { return &c.Host.TimeoutSeconds }),
		count("host.output_bytes", "", 1024, 64<<20, func(c *Config) *int64 { return &c.Host.OutputBytes }),
		count("host.ram_mb", "", 8, 16<<20, func(c *Config) *int64 { return &c.Host.RAMMB }),
		count("host.processes", "", 1, 1<<22, func(c *Config) *int { return &c.Host.Processes }),
		count("host.cpu_cores", "", 0, 4096, func(c *Config) *int { return &c.Host.CPUCores }),
		list("host.environment", func(c *Config) *[]string { return &c.Host.Environment }),
		directories("host.read", func(c *Config) *[]string { return &c.Host.Read }),
		directories("host.write", func(c *Config) *[]string { return &c.Host.Write }),
		count("host.max_file_mb", "", 1, 1024, func(c *Config) *int64 { return &c.Host.MaxFileMB }),
	}
}

// directories are absolute, or in the home directory.
func directories(key string, of func(*Config) *[]string) setting {
	paths := list(key, of)
	return setting{key, "", "a list of paths", func(c *Config, v value) error {
		if err := paths.set(c, v); err != nil {
			return err
		}
		for i, text := range *of(c) {
			dir, err := v.path(text)
			if err != nil {
				return err
			}
			(*of(c))[i] = dir
		}
		return nil
	}, paths.show}
}
