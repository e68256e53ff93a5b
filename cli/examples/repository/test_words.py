import socket
import unittest

from words import count


class CountTest(unittest.TestCase):
    def test_count(self):
        self.assertEqual(count("to be or not to be"), {"to": 2, "be": 2, "or": 1, "not": 1})

    def test_nothing_phones_home(self):
        with self.assertRaises(OSError):
            socket.create_connection(("telemetry.example", 443), timeout=5)

    def test_source_is_read_only(self):
        with self.assertRaises(OSError):
            open("words.py", "a")


if __name__ == "__main__":
    unittest.main()
