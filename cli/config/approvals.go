package config

// Approvals is how people are asked.
type Approvals struct {
	TimeoutSeconds int    // after which silence is a no
	Confirm        string // who approves what agents ask a server: "user", whose it is, or "root"
	Notify         bool   // a server shows questions on its user's desktop, too, where there is one
}

func approvalSettings() []setting {
	return []setting{
		count("approvals.timeout_seconds", "", 1, 24*60*60, func(c *Config) *int { return &c.Approvals.TimeoutSeconds }),
		word("approvals.confirm", "", []string{"user", "root"}, func(c *Config) *string { return &c.Approvals.Confirm }),
		yesNo("approvals.notify", "", func(c *Config) *bool { return &c.Approvals.Notify }),
		yesNo("packages.ask", "", func(c *Config) *bool { return &c.Packages.Ask }),
	}
}
