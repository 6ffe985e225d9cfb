"""What Telegram says and wants: errors, identity, rights, menus, links."""
