sys.exit(pip(sys.argv[1:]))
