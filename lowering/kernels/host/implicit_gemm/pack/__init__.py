"""How weights become panels."""
